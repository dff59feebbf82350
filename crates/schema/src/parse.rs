//! Reads the table: `facts.txt`, made by `cargo xtask schema` and never by hand, then `own.txt`, the types of
//! groups that no published source has, written by hand in the same form.
//!
//! ```text
//!   api.core.v1.Pod kind=/v1/Pod/pods/namespace     a type: name, then `kind=group/version/kind/segment/scope`, `atomic`
//!    + 2 api.core.v1.VolumeSource                   a protobuf tag whose message lies open in the JSON of this type
//!    ports 6 [api.core.v1.ContainerPort] omit …     a member: JSON name, tag, shape, then words
//! ```
//!
//! Shapes: a word in lower case, the name of a type, `[item]`, `{value}`.
//! Words: `required`, `omit`, `always`, `null`, `atomic`, `retain`, `set`, `map=keys`, `merge`, `merge=key`,
//! `object=type`, `default=json` (last, to the end of the line).

use std::collections::HashMap;

use crate::facts::{
    ApiKind, ApiType, Field, FieldPlaces, ListMerge, Scope, TypeFacts, TypeId, ValueType,
};

/// The whole table as text.
pub(crate) const TEXT: &str = concat!(include_str!("facts.txt"), include_str!("own.txt"));

/// The table, or the line that cannot be read.
pub(crate) fn table(text: &'static str) -> Result<TypeFacts, &'static str> {
    let names = names(text)?;
    let mut types: Vec<ApiType> = Vec::with_capacity(names.len());
    for line in text.lines() {
        let read = match line.strip_prefix(' ') {
            None => head(line).map(|made| types.push(made)),
            Some(rest) => types.last_mut().and_then(|made| member(rest, &names, made)),
        };
        read.ok_or(line)?;
    }
    for made in &mut types {
        made.places = FieldPlaces::of(&made.fields);
    }
    Ok(TypeFacts { types, by_name: names })
}

/// Where every type will stand, so that members may point ahead.
fn names(text: &'static str) -> Result<HashMap<&'static str, TypeId>, &'static str> {
    let mut names = HashMap::with_capacity(1024);
    for line in text.lines().filter(|line| !line.starts_with(' ')) {
        let name = line.split(' ').next().unwrap_or(line);
        let id = u16::try_from(names.len()).map_err(|_| line)?;
        names.insert(name, TypeId(id));
    }
    Ok(names)
}

fn head(line: &'static str) -> Option<ApiType> {
    let mut words = line.split(' ');
    let mut made = ApiType {
        name: words.next()?,
        fields: Vec::new(),
        atomic: false,
        kind: None,
        inlines: Vec::new(),
        places: FieldPlaces::of(&[]),
    };
    for word in words {
        match word.split_once('=') {
            None if word == "atomic" => made.atomic = true,
            Some(("kind", value)) => made.kind = Some(kind(value)?),
            _ => return None,
        }
    }
    Some(made)
}

fn kind(text: &'static str) -> Option<ApiKind> {
    let mut parts = text.rsplitn(5, '/');
    let scope = match parts.next()? {
        "cluster" => Scope::Cluster,
        "namespace" => Scope::Namespace,
        "sub" => Scope::Subresource,
        _ => return None,
    };
    let (segment, kind, version) = (parts.next()?, parts.next()?, parts.next()?);
    Some(ApiKind { group: parts.next()?, version, kind, segment, scope })
}

fn member(
    line: &'static str,
    names: &HashMap<&'static str, TypeId>,
    made: &mut ApiType,
) -> Option<()> {
    let (json, rest) = line.split_once(' ')?;
    let (tag, rest) = rest.split_once(' ')?;
    let tag = tag.parse().ok()?;
    let (of, words) = rest.split_once(' ').unwrap_or((rest, ""));
    if json == "+" {
        made.inlines.push((tag, *names.get(of)?));
        return Some(());
    }
    let mut field = Field {
        json,
        tag,
        shape: shape(of, names)?,
        object: None,
        list: ListMerge::Atomic,
        atomic: false,
        merge_key: None,
        retain_keys: false,
        required: false,
        omit_zero: false,
        always: false,
        null: false,
        default: None,
    };
    read_words(words, names, &mut field)?;
    made.fields.push(field);
    Some(())
}

fn read_words(
    mut words: &'static str,
    names: &HashMap<&'static str, TypeId>,
    field: &mut Field,
) -> Option<()> {
    while !words.is_empty() {
        if let Some(value) = words.strip_prefix("default=") {
            field.default = Some(value);
            break;
        }
        let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
        words = rest;
        match word.split_once('=') {
            None => match word {
                "required" => field.required = true,
                "omit" => field.omit_zero = true,
                "always" => field.always = true,
                "null" => field.null = true,
                "atomic" => field.atomic = true,
                "retain" => field.retain_keys = true,
                "set" => field.list = ListMerge::Set,
                "merge" => field.merge_key = Some(""),
                _ => return None,
            },
            Some(("map", keys)) => field.list = ListMerge::Map(keys.split(',').collect()),
            Some(("merge", key)) => field.merge_key = Some(key),
            Some(("object", name)) => field.object = Some(*names.get(name)?),
            Some(_) => return None,
        }
    }
    Some(())
}

fn shape(text: &str, names: &HashMap<&'static str, TypeId>) -> Option<ValueType> {
    let inside = |open: char, close: char| text.strip_prefix(open)?.strip_suffix(close);
    if let Some(item) = inside('[', ']') {
        return Some(ValueType::List(Box::new(shape(item, names)?)));
    }
    if let Some(value) = inside('{', '}') {
        return Some(ValueType::Map(Box::new(shape(value, names)?)));
    }
    Some(match text {
        "string" => ValueType::String,
        "bytes" => ValueType::Bytes,
        "bool" => ValueType::Bool,
        "int32" => ValueType::Int32,
        "int64" => ValueType::Int64,
        "double" => ValueType::Double,
        "quantity" => ValueType::Quantity,
        "intorstring" => ValueType::IntOrString,
        "time" => ValueType::Time,
        "microtime" => ValueType::MicroTime,
        "any" => ValueType::Any,
        name => ValueType::Struct(*names.get(name)?),
    })
}

#[cfg(test)]
mod tests {
    //! Rules of spec/dependencies.md.

    use super::*;
    use crate::facts::facts;

    #[test]
    fn r13_every_line_of_the_table_is_read() {
        let lines = TEXT.lines().count();
        let read: usize =
            facts().types().iter().map(|t| 1 + t.fields.len() + t.inlines.len()).sum();
        assert_eq!(read, lines);
        assert!(facts().types().len() > 500);
    }

    #[test]
    fn r13_members_are_sorted_and_types_are_found_by_name() {
        for (at, made) in facts().types().iter().enumerate() {
            assert!(made.fields.is_sorted_by(|a, b| a.json < b.json), "{}", made.name);
            let id = facts().type_id(made.name).unwrap();
            assert_eq!(usize::from(id.0), at);
        }
    }

    #[test]
    fn r13_reading_is_quick() {
        let times = (0..20).map(|_| {
            let start = std::time::Instant::now();
            assert!(table(TEXT).is_ok());
            start.elapsed()
        });
        let best = times.min().unwrap();
        println!("{best:?}");
        // The release build has two milliseconds; unoptimised builds are given room.
        let limit = if cfg!(debug_assertions) { 100 } else { 2 };
        assert!(best.as_millis() < limit, "{best:?}");
    }

    #[test]
    fn a_broken_line_is_named() {
        assert_eq!(table("a.B\n x 1 nothing").err(), Some(" x 1 nothing"));
        assert_eq!(table("a.B odd").err(), Some("a.B odd"));
    }

    #[test]
    fn r13_facts_of_well_known_members() {
        let of = |name: &str| facts().get(facts().type_id(name).unwrap()).unwrap();
        let pod = of("api.core.v1.PodSpec");
        let containers = pod.field("containers").unwrap();
        assert_eq!(containers.tag, 2);
        assert!(containers.required);
        assert_eq!(containers.list, ListMerge::Map(vec!["name"]));
        assert_eq!(containers.merge_key, Some("name"));
        let ports = of("api.core.v1.Container").field("ports").unwrap();
        assert_eq!(ports.list, ListMerge::Map(vec!["containerPort", "protocol"]));
        assert_eq!(ports.merge_key, Some("containerPort"));
        let protocol = of("api.core.v1.ContainerPort").field("protocol").unwrap();
        assert_eq!(protocol.default, Some("\"TCP\""));
        assert!(of("apimachinery.meta.v1.LabelSelector").atomic);
        assert!(of("api.core.v1.ServiceSpec").field("selector").unwrap().atomic);
        let volume = of("api.core.v1.Volume");
        let source = facts().type_id("api.core.v1.VolumeSource").unwrap();
        assert_eq!(volume.inlines, vec![(2, source)]);
        assert!(volume.field("configMap").is_some());
        assert_eq!(facts().get(source).unwrap().field("configMap").unwrap().tag, 19);
        let finalizers = of("apimachinery.meta.v1.ObjectMeta").field("finalizers").unwrap();
        assert_eq!(finalizers.list, ListMerge::Set);
        assert_eq!(finalizers.merge_key, Some(""));
        let kind = of("api.apps.v1.Deployment").kind.unwrap();
        assert_eq!((kind.group, kind.segment), ("apps", "deployments"));
    }
}
