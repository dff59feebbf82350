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
pub enum NamedFormat {
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

impl NamedFormat {
    fn find(name: &str) -> Option<NamedFormat> {
        Some(match name {
            "dns1123Label" => NamedFormat::Dns1123Label,
            "dns1123Subdomain" => NamedFormat::Dns1123Subdomain,
            "dns1035Label" => NamedFormat::Dns1035Label,
            "qualifiedName" => NamedFormat::QualifiedName,
            "dns1123LabelPrefix" => NamedFormat::Dns1123LabelPrefix,
            "dns1123SubdomainPrefix" => NamedFormat::Dns1123SubdomainPrefix,
            "dns1035LabelPrefix" => NamedFormat::Dns1035LabelPrefix,
            "labelValue" => NamedFormat::LabelValue,
            "uri" => NamedFormat::Uri,
            "uuid" => NamedFormat::Uuid,
            "byte" => NamedFormat::Byte,
            "date" => NamedFormat::Date,
            "datetime" => NamedFormat::Datetime,
            _ => return None,
        })
    }

    /// How long the pattern of the format is taken to be, for the cost.
    fn pattern_length(self) -> u64 {
        match self {
            NamedFormat::Dns1123Label
            | NamedFormat::Dns1035Label
            | NamedFormat::Dns1123LabelPrefix
            | NamedFormat::Dns1035LabelPrefix => 30,
            NamedFormat::LabelValue => 40,
            NamedFormat::Dns1123Subdomain
            | NamedFormat::Dns1123SubdomainPrefix
            | NamedFormat::QualifiedName => 60,
            NamedFormat::Uuid | NamedFormat::Date | NamedFormat::Datetime => 100,
            NamedFormat::Byte => 100,
            NamedFormat::Uri => 300,
        }
    }

    /// What is wrong with the text, if anything is.
    fn fault(self, text: &str) -> Option<&'static str> {
        let unless = |good: bool, fault: &'static str| (!good).then_some(fault);
        match self {
            NamedFormat::Dns1123Label => name::dns_label(text),
            NamedFormat::Dns1123Subdomain => name::dns_subdomain(text),
            NamedFormat::Dns1035Label => name::dns_1035_label(text),
            NamedFormat::QualifiedName => name::qualified_name(text),
            NamedFormat::Dns1123LabelPrefix => name::dns_label(&completed(text)),
            NamedFormat::Dns1123SubdomainPrefix => name::dns_subdomain(&completed(text)),
            NamedFormat::Dns1035LabelPrefix => name::dns_1035_label(&completed(text)),
            NamedFormat::LabelValue => name::label_value(text),
            NamedFormat::Uri => unless(is_request_uri(text), "invalid URI"),
            NamedFormat::Uuid => unless(is_uuid(text), "does not match the UUID format"),
            NamedFormat::Byte => {
                unless(!text.is_empty() && decode_base64(text).is_some(), "invalid base64")
            }
            NamedFormat::Date => unless(time::date(text).is_some(), "invalid date"),
            NamedFormat::Datetime => unless(time::rfc3339(text).is_some(), "invalid datetime"),
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
            let found = NamedFormat::find(name).map(Value::Format);
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
            Ok(Value::Format(NamedFormat::$named))
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
