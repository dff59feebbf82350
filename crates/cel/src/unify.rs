//! Which types fit which, and what the unknown ones turn out to be.

use crate::types::Type;

/// How many parts a type may have; what lies beyond is checked when the expression runs. A short text
/// can spell a type whose parts double with every line.
const TYPE_PARTS_MAX: u32 = 1000;

/// What is known of each unknown type so far.
#[derive(Default)]
pub(crate) struct Substitution {
    found: Vec<Option<Type>>,
    /// What was known before, in order, so that a failed attempt can be taken back.
    trail: Vec<(usize, Option<Type>)>,
}

impl Substitution {
    /// A new unknown type.
    pub(crate) fn fresh(&mut self) -> Type {
        self.found.push(None);
        Type::Param(self.found.len() - 1)
    }

    fn find(&self, ty: &Type) -> Option<&Type> {
        match ty {
            Type::Param(id) => self.found.get(*id).and_then(Option::as_ref),
            _ => None,
        }
    }

    fn set(&mut self, ty: &Type, to: Type) {
        if let Type::Param(id) = ty
            && let Some(place) = self.found.get_mut(*id)
        {
            self.trail.push((*id, place.replace(to)));
        }
    }

    /// Tries something, and forgets what it learned when it fails.
    fn attempt(&mut self, run: impl FnOnce(&mut Substitution) -> bool) -> bool {
        self.trail.clear();
        let fits = run(self);
        if !fits {
            while let Some((id, before)) = self.trail.pop() {
                if let Some(place) = self.found.get_mut(id) {
                    *place = before;
                }
            }
        }
        fits
    }

    /// Whether a value of type `a` may stand where `b` is wanted; learns unknown types when it may.
    pub(crate) fn assign(&mut self, a: &Type, b: &Type) -> bool {
        self.attempt(|known| known.fits(a, b))
    }

    /// The same for several at once.
    pub(crate) fn assign_all(&mut self, a: &[Type], b: &[Type]) -> bool {
        self.attempt(|known| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| known.fits(a, b)))
    }

    fn fits(&mut self, a: &Type, b: &Type) -> bool {
        if matches!(b, Type::Param(_)) {
            match self.substitute_for(a, b) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if matches!(a, Type::Param(_)) {
            return self.substitute_for(b, a).0;
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Object(_)
                    | Type::Struct(_)
                    | Type::Opaque(_)
                    | Type::Optional(_)
                    | Type::Duration
                    | Type::Timestamp
            ),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.fits(a, b)
            }
            (Type::Map(a, c), Type::Map(b, d)) => self.fits(a, b) && self.fits(c, d),
            (a, b) => a == b,
        }
    }

    /// Whether unknown `param` can be `ty`, and whether it was something already.
    fn substitute_for(&mut self, ty: &Type, param: &Type) -> (bool, bool) {
        if ty == param {
            return (true, true);
        }
        if let Some(known) = self.find(param).cloned() {
            if known == *ty {
                return (true, true);
            }
            if !self.fits(ty, &known) {
                return (false, true);
            }
            let wider = wider(ty, &known).clone();
            if !self.occurs(param, &wider) {
                self.set(param, wider);
            }
            return (true, true);
        }
        if self.occurs(param, ty) {
            return (false, false);
        }
        self.set(param, ty.clone());
        (true, false)
    }

    fn occurs(&self, param: &Type, within: &Type) -> bool {
        if param == within {
            return true;
        }
        match within {
            Type::Param(_) => self.find(within).is_some_and(|known| self.occurs(param, known)),
            Type::List(inner) | Type::Optional(inner) => self.occurs(param, inner),
            Type::Map(key, value) => self.occurs(param, key) || self.occurs(param, value),
            _ => false,
        }
    }

    /// The type with everything known filled in; what stays unknown is `dyn` when `finally`.
    pub(crate) fn resolve(&self, ty: &Type, finally: bool) -> Type {
        self.rebuild(ty, finally, &mut { TYPE_PARTS_MAX })
    }

    fn rebuild(&self, ty: &Type, finally: bool, left: &mut u32) -> Type {
        let Some(next) = left.checked_sub(1) else { return Type::Dyn };
        *left = next;
        if let Some(known) = self.find(ty) {
            return self.rebuild(known, finally, left);
        }
        match ty {
            Type::Param(_) if finally => Type::Dyn,
            Type::List(inner) => Type::list(self.rebuild(inner, finally, left)),
            Type::Optional(inner) => Type::optional(self.rebuild(inner, finally, left)),
            Type::Map(key, value) => {
                let key = self.rebuild(key, finally, left);
                Type::map(key, self.rebuild(value, finally, left))
            }
            ty => ty.clone(),
        }
    }
}

/// The more general of two types that fit each other.
pub(crate) fn wider<'t>(a: &'t Type, b: &'t Type) -> &'t Type {
    if is_wider(a, b) { a } else { b }
}

fn is_wider(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => is_wider(a, b),
        (Type::Map(a, c), Type::Map(b, d)) => is_wider(a, b) && is_wider(c, d),
        (a, b) => a == b,
    }
}
