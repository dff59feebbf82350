//! What the client wants back: media type and representation (R20, R27, R30).

use std::collections::BTreeMap;

use tenure_machinery::Failure;

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// Which version of the `meta.k8s.io` group a transformed answer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    /// `v1`.
    V1,
    /// `v1beta1`.
    V1Beta1,
}

impl MetaVersion {
    /// `meta.k8s.io/v1` or `meta.k8s.io/v1beta1`.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    /// The object or list itself.
    Plain,
    /// Rows and columns for people.
    Table(MetaVersion),
    /// Metadata only.
    Metadata(MetaVersion),
}

/// The agreed answer form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiatedFormat {
    /// How bytes are written.
    pub format: BodyFormat,
    /// What is written.
    pub shape: Representation,
}

/// What the endpoint can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// One object: plain, Table, PartialObjectMetadata.
    Object,
    /// A list: plain, Table, PartialObjectMetadataList.
    List,
    /// A watch: as an object, JSON only.
    Watch,
    /// Plain only (reviews, discovery, Status).
    PlainOnly,
}

struct MediaRange<'a> {
    media: &'a str,
    quality: f32,
    shape: &'a str,
    group: &'a str,
    version: &'a str,
}

/// Picks the first acceptable clause, best quality first.
///
/// A media type that nobody serves is skipped; a served one that asks for a representation this endpoint
/// does not have is skipped as well. With nothing left the answer is 406.
pub fn negotiate(accept: Option<&str>, offer: Offer) -> Result<NegotiatedFormat, Failure> {
    let text = accept.unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(NegotiatedFormat { format: BodyFormat::Json, shape: Representation::Plain });
    }
    let mut clauses: Vec<MediaRange<'_>> = text.split(',').map(clause).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    let mut known_type = false;
    for clause in clauses.iter().filter(|c| c.quality > 0.0) {
        let Some(format) = format_of(clause.media, offer) else { continue };
        known_type = true;
        if let Some(shape) = shape_of(clause, offer) {
            return Ok(NegotiatedFormat { format, shape });
        }
    }
    let message = "only the following media types are accepted: application/json, application/yaml";
    let failure = Failure::new(406, "NotAcceptable", message);
    // Upstream leaves details out when the type was known and only the representation was not.
    Err(if known_type {
        failure
    } else {
        failure.with(tenure_machinery::status::Details::default())
    })
}

fn format_of(media: &str, offer: Offer) -> Option<BodyFormat> {
    match media {
        "application/json" | "*/*" | "application/*" => Some(BodyFormat::Json),
        "application/yaml" if offer != Offer::Watch => Some(BodyFormat::Yaml),
        _ => None,
    }
}

fn shape_of(clause: &MediaRange<'_>, offer: Offer) -> Option<Representation> {
    if clause.shape.is_empty() {
        return Some(Representation::Plain);
    }
    if clause.group != "meta.k8s.io" {
        return None;
    }
    let version = match clause.version {
        "v1" => MetaVersion::V1,
        "v1beta1" => MetaVersion::V1Beta1,
        _ => return None,
    };
    match (clause.shape, offer) {
        ("Table", Offer::Object | Offer::List | Offer::Watch) => {
            Some(Representation::Table(version))
        }
        ("PartialObjectMetadata", Offer::Object | Offer::Watch)
        | ("PartialObjectMetadataList", Offer::List) => Some(Representation::Metadata(version)),
        _ => None,
    }
}

fn clause(text: &str) -> MediaRange<'_> {
    let mut parts = text.split(';').map(str::trim);
    let mut clause = MediaRange {
        media: parts.next().unwrap_or_default(),
        quality: 1.0,
        shape: "",
        group: "",
        version: "",
    };
    for part in parts {
        match part.split_once('=') {
            Some(("q", value)) => clause.quality = value.parse().unwrap_or(1.0),
            Some(("as", value)) => clause.shape = value,
            Some(("g", value)) => clause.group = value,
            Some(("v", value)) => clause.version = value,
            _ => {}
        }
    }
    clause
}

/// Whether the client asks for the aggregated discovery document (R39): any clause with the three
/// parameters, before a plain one.
#[must_use]
pub fn wants_aggregated_discovery(accept: Option<&str>) -> bool {
    for clause in accept.unwrap_or_default().split(',').map(clause) {
        if clause.media != "application/json" {
            continue;
        }
        if clause.shape == "APIGroupDiscoveryList"
            && clause.group == "apidiscovery.k8s.io"
            && clause.version == "v2"
        {
            return true;
        }
        if clause.shape.is_empty() {
            return false;
        }
    }
    false
}

/// The media types of patches. Their names are compared as they stand.
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// The bare media type of a Content-Type header (R21).
///
/// Patches are known by the text before the first semicolon, as it is. Of everything else the whole header
/// is read as Go's `mime.ParseMediaType` reads it; one that cannot be read so is answered whole, which is no
/// type that anybody serves.
#[must_use]
pub fn media_type(header: Option<&str>) -> String {
    let whole = header.unwrap_or_default();
    let text = whole.split(';').next().unwrap_or_default();
    if whole.is_empty() || PATCHES.contains(&text) {
        return text.to_owned();
    }
    match parse_media_type(whole) {
        Some(media) if !PATCHES.contains(&media.as_str()) => media,
        _ => whole.to_owned(),
    }
}

fn parse_media_type(header: &str) -> Option<String> {
    let (base, rest) = header.split_at(header.find(';').unwrap_or(header.len()));
    let media = base.trim().to_lowercase();
    let (_, subtype) = token(&media)?;
    if !subtype.is_empty() && !matches!(token(subtype.strip_prefix('/')?), Some((_, ""))) {
        return None;
    }
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut rest = rest.trim_start();
    // A semicolon at the end begins nothing.
    while !matches!(rest.trim_end(), "" | ";") {
        let (name, after) = token(rest.strip_prefix(';')?.trim_start())?;
        let (value, after) = parameter_value(after.trim_start().strip_prefix('=')?.trim_start())?;
        // Said twice is said once, unless it is something else.
        if *seen.entry(name.to_lowercase()).or_insert_with(|| value.clone()) != value {
            return None;
        }
        rest = after.trim_start();
    }
    Some(media)
}

/// The token at the start of a text, and what follows it.
fn token(text: &str) -> Option<(&str, &str)> {
    let is_token = |c: char| c.is_ascii_graphic() && !is_special(c);
    let end = text.find(|c| !is_token(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// What stands apart from tokens in a media type.
fn is_special(c: char) -> bool {
    r#"()<>@,;:\"/[]?="#.contains(c)
}

/// The value at the start of a text, a token or in quotes, and what follows it.
fn parameter_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        return token(text).map(|(value, rest)| (value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\r' | '\n' => return None,
            // A backslash before a plain character means itself.
            '\\' if characters.clone().next().is_some_and(is_special) => {
                value.extend(characters.next());
            }
            other => value.push(other),
        }
    }
}
