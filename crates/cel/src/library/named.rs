//! Named formats: `format.dns1123Label().validate(text)` is absent when the text is good.

use tenure_machinery::name;

use crate::error::EvalError;
use crate::library::url::is_request_uri;
use crate::meter::{Meter, scaled};
use crate::time;
use crate::value::{Value, decode_base64};

type Made<'a> = Result<Value<'a>, EvalError>;

/// A format that text can be checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A DNS label.
    Dns1123Label,
    /// A DNS subdomain.
    Dns1123Subdomain,
    /// A DNS label that starts with a letter.
    Dns1035Label,
    /// A name with an optional prefix.
    QualifiedName,
    /// The beginning of a DNS label.
    Dns1123LabelPrefix,
    /// The beginning of a DNS subdomain.
    Dns1123SubdomainPrefix,
    /// The beginning of a DNS label that starts with a letter.
    Dns1035LabelPrefix,
    /// The value of a label.
    LabelValue,
    /// A URI.
    Uri,
    /// A UUID.
    Uuid,
    /// Octets in base64.
    Byte,
    /// A date.
    Date,
    /// A date and time.
    Datetime,
}

impl Named {
    fn find(name: &str) -> Option<Named> {
        Some(match name {
            "dns1123Label" => Named::Dns1123Label,
            "dns1123Subdomain" => Named::Dns1123Subdomain,
            "dns1035Label" => Named::Dns1035Label,
            "qualifiedName" => Named::QualifiedName,
            "dns1123LabelPrefix" => Named::Dns1123LabelPrefix,
            "dns1123SubdomainPrefix" => Named::Dns1123SubdomainPrefix,
            "dns1035LabelPrefix" => Named::Dns1035LabelPrefix,
            "labelValue" => Named::LabelValue,
            "uri" => Named::Uri,
            "uuid" => Named::Uuid,
            "byte" => Named::Byte,
            "date" => Named::Date,
            "datetime" => Named::Datetime,
            _ => return None,
        })
    }

    /// How long the pattern of the format is taken to be, for the cost.
    fn pattern_length(self) -> u64 {
        match self {
            Named::Dns1123Label
            | Named::Dns1035Label
            | Named::Dns1123LabelPrefix
            | Named::Dns1035LabelPrefix => 30,
            Named::LabelValue => 40,
            Named::Dns1123Subdomain | Named::Dns1123SubdomainPrefix | Named::QualifiedName => 60,
            Named::Uuid | Named::Date | Named::Datetime => 100,
            Named::Byte => 100,
            Named::Uri => 300,
        }
    }

    /// What is wrong with the text, if anything is.
    fn fault(self, text: &str) -> Option<&'static str> {
        let unless = |good: bool, fault: &'static str| (!good).then_some(fault);
        match self {
            Named::Dns1123Label => name::dns_label(text),
            Named::Dns1123Subdomain => name::dns_subdomain(text),
            Named::Dns1035Label => name::dns_1035_label(text),
            Named::QualifiedName => name::qualified_name(text),
            Named::Dns1123LabelPrefix => name::dns_label(&completed(text)),
            Named::Dns1123SubdomainPrefix => name::dns_subdomain(&completed(text)),
            Named::Dns1035LabelPrefix => name::dns_1035_label(&completed(text)),
            Named::LabelValue => name::label_value(text),
            Named::Uri => unless(is_request_uri(text), "invalid URI"),
            Named::Uuid => unless(is_uuid(text), "does not match the UUID format"),
            Named::Byte => {
                unless(!text.is_empty() && decode_base64(text).is_some(), "invalid base64")
            }
            Named::Date => unless(time::date(text).is_some(), "invalid date"),
            Named::Datetime => unless(time::rfc3339(text).is_some(), "invalid datetime"),
        }
    }
}

/// A prefix may end in a dash, since more follows.
fn completed(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut kept = rest.to_owned();
            kept.pop();
            kept.push('a');
            kept
        }
        _ => text.to_owned(),
    }
}

fn is_uuid(text: &str) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    let shaped = matches!(lengths.as_slice(), [8, 4, 4, 4, 12] | [32]);
    shaped && digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

pub(crate) fn named<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(name)] => {
            let found = Named::find(name).map(Value::Format);
            Ok(found.map_or(Value::Optional(None), Value::some))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn validate<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let [Value::Format(format), Value::String(text)] = args else {
        return Err(EvalError::no_such_overload());
    };
    let text_cost = scaled((text.len() as u64).saturating_add(1), 0.1);
    meter.charge(text_cost.saturating_mul(scaled(format.pattern_length(), 0.25)))?;
    Ok(match format.fault(text) {
        Some(fault) => Value::some(Value::list(vec![Value::borrowed(fault)])),
        None => Value::Optional(None),
    })
}

macro_rules! constants {
    ($($function:ident $named:ident),* $(,)?) => {
        $(pub(crate) fn $function<'a>(_: &mut Meter, _: &[Value<'a>]) -> Made<'a> {
            Ok(Value::Format(Named::$named))
        })*
    };
}

constants! {
    dns1123_label Dns1123Label,
    dns1123_subdomain Dns1123Subdomain,
    dns1035_label Dns1035Label,
    qualified_name QualifiedName,
    dns1123_label_prefix Dns1123LabelPrefix,
    dns1123_subdomain_prefix Dns1123SubdomainPrefix,
    dns1035_label_prefix Dns1035LabelPrefix,
    label_value LabelValue,
    uri Uri,
    uuid Uuid,
    byte Byte,
    date Date,
    datetime Datetime,
}
