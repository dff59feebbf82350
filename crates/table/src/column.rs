//! One column of a table: what it is called and how its cells are to be read.

use std::borrow::Cow;

use serde_json::{Value, json};

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading, such as `Ready`.
    pub name: Cow<'static, str>,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: Cow<'static, str>,
    /// `name` for the column that names the object, else empty.
    pub format: Cow<'static, str>,
    /// What the cells say.
    pub description: Cow<'static, str>,
    /// 0 is always shown, 1 only in wide output.
    pub priority: i32,
}

impl Column {
    const fn new(name: &'static str, kind: &'static str, description: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            kind: Cow::Borrowed(kind),
            format: Cow::Borrowed(""),
            description: Cow::Borrowed(description),
            priority: 0,
        }
    }

    /// The column as `meta.k8s.io` writes it.
    #[must_use]
    pub fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

/// The `columnDefinitions` of a Table.
#[must_use]
pub fn definitions(columns: &[Column]) -> Value {
    columns.iter().map(Column::definition).collect()
}

/// A column of text.
pub(crate) const fn text(name: &'static str, description: &'static str) -> Column {
    Column::new(name, "string", description)
}

/// A column of text for wide output.
pub(crate) const fn wide(name: &'static str, description: &'static str) -> Column {
    let mut column = Column::new(name, "string", description);
    column.priority = 1;
    column
}

/// A column of whole numbers.
pub(crate) const fn integer(name: &'static str, description: &'static str) -> Column {
    Column::new(name, "integer", description)
}

/// A column of truths.
pub(crate) const fn boolean(name: &'static str, description: &'static str) -> Column {
    Column::new(name, "boolean", description)
}

/// A column of times.
pub(crate) const fn date(name: &'static str, description: &'static str) -> Column {
    Column::new(name, "date", description)
}

/// A text column that names something.
pub(crate) const fn named(mut column: Column) -> Column {
    // Assigning the member would drop the old value, which a const function may not do.
    if let Cow::Borrowed(format) = &mut column.format {
        *format = "name";
    }
    column
}

/// The object's name.
pub(crate) const NAME: Column = named(text("Name", "Name of the object"));
/// How long the object has existed.
pub(crate) const AGE: Column = text("Age", "Time since the object was created");
/// The containers of the pod template.
pub(crate) const CONTAINERS: Column = wide("Containers", "Names of the containers");
/// The images of the pod template.
pub(crate) const IMAGES: Column = wide("Images", "Images of the containers");
/// The label selector.
pub(crate) const SELECTOR: Column = wide("Selector", "Labels that select the pods");
