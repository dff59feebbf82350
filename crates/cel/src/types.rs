//! The types that expressions are checked against. How a schema becomes one is told in [`crate::shape`].

use core::fmt;
use std::sync::Arc;

use crate::shape::DeclaredType;

/// The type of an expression.
#[derive(Clone, Debug)]
pub enum Type {
    /// Anything; checked only when the expression runs.
    Dyn,
    /// The type of `null`.
    Null,
    /// True or false.
    Bool,
    /// A signed whole number of 64 bits.
    Int,
    /// An unsigned whole number of 64 bits.
    Uint,
    /// A floating point number of 64 bits.
    Double,
    /// Text.
    String,
    /// Octets.
    Bytes,
    /// A length of time.
    Duration,
    /// A point in time.
    Timestamp,
    /// A list of one element type.
    List(Arc<Type>),
    /// A map from a key type to a value type.
    Map(Arc<Type>, Arc<Type>),
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// The type of a type.
    Type,
    /// An object whose fields a schema names; two are equal when the schema is the same place.
    Object(Arc<DeclaredType>),
    /// What `Name{…}` makes, by its name.
    Struct(Arc<str>),
    /// A type of the Kubernetes libraries.
    Opaque(Opaque),
    /// A type not yet known, while checking.
    Param(usize),
    /// The type of what was refused already.
    Error,
}

/// The types of the Kubernetes libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opaque {
    /// `url(…)`.
    Url,
    /// `quantity(…)`.
    Quantity,
    /// `ip(…)`.
    Ip,
    /// `cidr(…)`.
    Cidr,
    /// `semver(…)`.
    Semver,
    /// `format.dns1123Label()` and its like.
    Format,
    /// Who answers questions about rights.
    Authorizer,
    /// A question about a path.
    PathCheck,
    /// A question about a group.
    GroupCheck,
    /// A question about a resource.
    ResourceCheck,
    /// The answer.
    Decision,
}

impl Opaque {
    /// The name that messages use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Opaque::Url => "kubernetes.URL",
            Opaque::Quantity => "kubernetes.Quantity",
            Opaque::Ip => "net.IP",
            Opaque::Cidr => "net.CIDR",
            Opaque::Semver => "kubernetes.Semver",
            Opaque::Format => "kubernetes.NamedFormat",
            Opaque::Authorizer => "kubernetes.authorization.Authorizer",
            Opaque::PathCheck => "kubernetes.authorization.PathCheck",
            Opaque::GroupCheck => "kubernetes.authorization.GroupCheck",
            Opaque::ResourceCheck => "kubernetes.authorization.ResourceCheck",
            Opaque::Decision => "kubernetes.authorization.Decision",
        }
    }
}

impl Type {
    /// A list of this.
    #[must_use]
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    /// A map.
    #[must_use]
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    /// This, or nothing.
    #[must_use]
    pub fn optional(inner: Type) -> Type {
        Type::Optional(Arc::new(inner))
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// Whether every value has size one.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Type::Bool
            | Type::Double
            | Type::Duration
            | Type::Int
            | Type::Timestamp
            | Type::Uint => true,
            Type::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => a == b,
            (Type::Map(a, b), Type::Map(c, d)) => a == c && b == d,
            (Type::Object(a), Type::Object(b)) => Arc::ptr_eq(a, b),
            (Type::Opaque(a), Type::Opaque(b)) => a == b,
            (Type::Struct(a), Type::Struct(b)) => a == b,
            (Type::Param(a), Type::Param(b)) => a == b,
            _ => core::mem::discriminant(self) == core::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Type::Dyn | Type::Param(_) => "dyn",
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "duration",
            Type::Timestamp => "timestamp",
            Type::Type => "type",
            Type::Object(_) => "object",
            Type::Struct(name) => name,
            Type::Error => "!error!",
            Type::Opaque(opaque) => opaque.name(),
            Type::List(element) => return write!(f, "list({element})"),
            Type::Map(key, value) => return write!(f, "map({key}, {value})"),
            Type::Optional(inner) => return write!(f, "optional_type({inner})"),
        };
        f.write_str(name)
    }
}
