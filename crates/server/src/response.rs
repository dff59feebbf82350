//! From objects to responses: plain, as metadata, as rows; JSON or YAML; small or gzipped.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tenure_kinds::retention::{is_subject, opted_in};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::Record;

use crate::body::{Body, Slices, full};
use crate::clock;
use crate::negotiate::{BodyFormat, MetaVersion, NegotiatedFormat, Representation};
use crate::reference;
use crate::registry::ServedKind;

/// Responses above this size are gzipped for clients that accept it (R26).
pub(crate) const GZIP_FROM_BYTES: u64 = 128 * 1024;

/// What a handler found or made.
pub enum ResponseObject {
    /// A stored object: its bytes go out as they are.
    Record(Arc<Record>),
    /// An object that is not stored in this form (dry run, scale, a removed object's last state).
    Object(Object),
}

impl ResponseObject {
    /// The name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            ResponseObject::Object(object) => object.name(),
            ResponseObject::Record(record) => record.name(),
        }
    }

    /// The object as JSON members, kind and apiVersion included.
    pub fn object(&self, served: &ServedKind) -> Result<std::borrow::Cow<'_, Object>, Failure> {
        match self {
            ResponseObject::Object(object) => Ok(std::borrow::Cow::Borrowed(object)),
            ResponseObject::Record(record) => served.read(record).map(std::borrow::Cow::Owned),
        }
    }
}

/// How the client wants its answer, beyond shape and format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Indent JSON.
    pub pretty: bool,
    /// The client takes gzip.
    pub gzip: bool,
    /// What stands in a Table row's `object`.
    pub include: Include,
}

/// `includeObject` of a Table request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// PartialObjectMetadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

/// One object as a response.
pub fn object(
    code: StatusCode,
    served: &ServedKind,
    found: &ResponseObject,
    wanted: NegotiatedFormat,
    style: Style,
) -> Result<Response<Body>, Failure> {
    match wanted.shape {
        Representation::Plain => match (found, wanted.format, style.pretty) {
            (ResponseObject::Record(record), BodyFormat::Json, false)
                if served.shows_verbatim(record) =>
            {
                let slices = VecDeque::from([record.bytes().clone()]);
                Ok(sliced(code, "application/json", slices, style))
            }
            _ => json_value(
                code,
                &Value::Object(found.object(served)?.into_owned()),
                wanted.format,
                style,
            ),
        },
        Representation::Metadata(version) => {
            let partial = partial(served, found, version)?;
            json_value(code, &partial, wanted.format, style)
        }
        Representation::Table(version) => {
            let object = found.object(served)?;
            let columns = Columns::of(served, opted_in(&object));
            let mut table = table_head(served, version, Some(columns));
            let revision = object
                .get("metadata")
                .and_then(|m| m.get("resourceVersion"))
                .cloned()
                .unwrap_or_default();
            table.insert("metadata".into(), json!({ "resourceVersion": revision }));
            table.insert(
                "rows".into(),
                Value::Array(vec![row(served, &object, version, style.include, columns)]),
            );
            json_value(code, &Value::Object(table), wanted.format, style)
        }
    }
}

/// Any JSON value as a response.
pub fn json_value(
    code: StatusCode,
    value: &Value,
    format: BodyFormat,
    style: Style,
) -> Result<Response<Body>, Failure> {
    let (bytes, media): (Vec<u8>, &'static str) = match format {
        BodyFormat::Json if style.pretty => {
            let mut bytes = serde_json::to_vec_pretty(value).map_err(Failure::internal)?;
            bytes.push(b'\n');
            (bytes, "application/json")
        }
        BodyFormat::Json => {
            (serde_json::to_vec(value).map_err(Failure::internal)?, "application/json")
        }
        BodyFormat::Yaml => (tenure_yaml::from_json(value).into_bytes(), "application/yaml"),
    };
    Ok(sliced(code, media, VecDeque::from([Bytes::from(bytes)]), style))
}

/// Slices as a response, gzipped where that pays.
#[must_use]
pub fn sliced(
    code: StatusCode,
    media: &'static str,
    slices: VecDeque<Bytes>,
    style: Style,
) -> Response<Body> {
    let slices = Slices::new(slices);
    if style.gzip && slices.total() > GZIP_FROM_BYTES {
        let mut response = respond(code, media, slices.gzipped());
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        return response;
    }
    respond(code, media, slices.boxed())
}

/// A response with a media type.
#[must_use]
pub fn respond(code: StatusCode, media: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// Plain text, such as `ok`.
#[must_use]
pub fn text(code: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    respond(code, "text/plain; charset=utf-8", full(text))
}

/// A failure as the Status object.
#[must_use]
pub fn failure(failure: &Failure) -> Response<Body> {
    let code = StatusCode::from_u16(failure.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = respond(code, "application/json", full(failure.to_text() + "\n"));
    // For the audit log, which says why in the same words.
    response.extensions_mut().insert(failure.clone());
    if let Some(seconds) =
        failure.details.as_ref().map(|d| d.retry_after_seconds).filter(|s| *s > 0)
    {
        response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The metadata of an object under the meta group.
pub fn partial(
    served: &ServedKind,
    found: &ResponseObject,
    version: MetaVersion,
) -> Result<Value, Failure> {
    let object = found.object(served)?;
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    Ok(json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": metadata,
    }))
}

/// Which columns a Table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// All but Tenure's own, which are shown where somebody opted in (retention R9).
    usual: bool,
}

impl Columns {
    /// The columns of a kind, among objects of which some opted in or none.
    #[must_use]
    pub fn of(served: &ServedKind, opted_in: bool) -> Columns {
        Columns { usual: !(opted_in && is_subject(&served.kind)) }
    }

    fn shown<'a, T>(self, served: &ServedKind, all: &'a [T]) -> &'a [T] {
        let count = if self.usual { tenure_table::usual(&served.kind) } else { all.len() };
        all.get(..count).unwrap_or(all)
    }
}

/// `kind`, `apiVersion` and the columns of a Table, if it has any.
#[must_use]
pub fn table_head(served: &ServedKind, version: MetaVersion, columns: Option<Columns>) -> Object {
    let mut table = Object::new();
    table.insert("kind".into(), "Table".into());
    table.insert("apiVersion".into(), version.api_version().into());
    let definitions = match (&served.custom, columns) {
        (_, None) => Value::Null,
        (Some(custom), Some(_)) => tenure_table::definitions(custom.columns.columns()),
        (None, Some(columns)) => {
            let all = tenure_table::columns(&served.kind);
            tenure_table::definitions(columns.shown(served, all))
        }
    };
    table.insert("columnDefinitions".into(), definitions);
    table
}

/// One row of a Table.
#[must_use]
pub fn row(
    served: &ServedKind,
    object: &Object,
    version: MetaVersion,
    include: Include,
    columns: Columns,
) -> Value {
    let now = clock::timestamp();
    let mut cells = match &served.custom {
        Some(custom) => custom.columns.cells(object, now),
        None => columns.shown(served, &tenure_table::cells(&served.kind, object, now)).to_vec(),
    };
    if let Some(version) = reference::shown_version(served, object) {
        tenure_table::mark_active_version(&mut cells, &version);
    }
    let shown = match include {
        Include::None => Value::Null,
        Include::Object => Value::Object(object.clone()),
        Include::Metadata => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": version.api_version(),
            "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
        }),
    };
    json!({ "cells": cells, "object": shown })
}
