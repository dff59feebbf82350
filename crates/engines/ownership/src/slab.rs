//! Numbered places for small values: freed places are used again, a wrong number never panics.

use alloc::vec::Vec;

/// A number that stands for no place.
pub(crate) const NONE: u32 = u32::MAX;

/// Values by number.
///
/// Reading a number that was never given reads the neutral value, so that a broken link can lead
/// to a missed decision but never to a panic.
#[derive(Clone, Debug)]
pub(crate) struct DefaultingSlab<T> {
    places: Vec<T>,
    free: Vec<u32>,
    neutral: T,
}

impl<T: Clone + Default> DefaultingSlab<T> {
    pub(crate) fn new() -> DefaultingSlab<T> {
        DefaultingSlab { places: Vec::new(), free: Vec::new(), neutral: T::default() }
    }

    pub(crate) fn reserve(&mut self, count: usize) {
        self.places.reserve(count);
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop() {
            if let Some(place) = self.places.get_mut(number as usize) {
                *place = value;
            }
            return number;
        }
        let number = u32::try_from(self.places.len()).unwrap_or(NONE);
        self.places.push(value);
        number
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(place) = self.places.get_mut(number as usize) {
            *place = T::default();
            self.free.push(number);
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> &T {
        self.places.get(number as usize).unwrap_or(&self.neutral)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut T {
        self.places.get_mut(number as usize).unwrap_or(&mut self.neutral)
    }

    /// One more than the highest number ever given.
    pub(crate) fn end(&self) -> u32 {
        u32::try_from(self.places.len()).unwrap_or(NONE)
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_places_are_used_again_and_wrong_numbers_read_neutral() {
        let mut slab: DefaultingSlab<u32> = DefaultingSlab::new();
        let (a, b) = (slab.insert(7), slab.insert(8));
        slab.remove(a);
        assert_eq!(slab.len(), 1);
        assert_eq!(slab.insert(9), a);
        assert_eq!((*slab.get(a), *slab.get(b), *slab.get(NONE)), (9, 8, 0));
        assert_eq!(slab.end(), 2);
    }
}
