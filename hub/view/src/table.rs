//! Lists as comma-separated values, RFC 4180.
//!
//! What comes in: rows as the API answers them, and which of their fields are columns. What goes out: one line for each row, the names of the
//! columns first. A field that is absent is an empty cell; numbers of reports are runs, such as `3 7–9`. What a spreadsheet would take
//! for a formula is text: sites and people write some of these. It leaves out the fields that are no column, and no row.

use outhaul_bundle::hub_api::{AccessRow, ActRow, BundleRow, DecisionRow};
use outhaul_kit::text::printable;
use outhaul_store::IngestRefusal;
use serde::Serialize;
use serde_json::Value;

use crate::{AssignmentRow, RequestRow, SiteRow};

/// Rows that have a form as a table.
pub trait Columns: Serialize {
    /// The fields that are columns, in their order; a field of a field is written with a dot.
    const COLUMNS: &'static [&'static str];
}

impl Columns for SiteRow {
    const COLUMNS: &'static [&'static str] = &[
        "site",
        "environment",
        "cluster_type",
        "verdict",
        "connection",
        "last_seen",
        "via",
        "desired",
        "actual",
        "bundle",
        "state",
        "message",
        "newest_report",
        "acknowledged",
        "missing",
        "conflict",
        "waived_until",
        "deferred_until",
    ];
}

impl Columns for AssignmentRow {
    const COLUMNS: &'static [&'static str] = &[
        "site",
        "environment",
        "cluster_type",
        "assignment",
        "workload",
        "workspace",
        "policies",
        "desired",
        "actual",
        "desired_config",
        "actual_config",
        "status",
        "message",
    ];
}

impl Columns for RequestRow {
    const COLUMNS: &'static [&'static str] = &[
        "site",
        "environment",
        "cluster_type",
        "fingerprint",
        "kit",
        "origin",
        "received_at",
        "conflict",
    ];
}

impl Columns for IngestRefusal {
    const COLUMNS: &'static [&'static str] = &[
        "site", "rule", "times", "source", "first_ms", "at_ms", "message",
    ];
}

impl Columns for BundleRow {
    const COLUMNS: &'static [&'static str] = &[
        "environment",
        "cluster_type",
        "number",
        "base_commit",
        "index",
        "issued_at",
        "received_at",
        "expires_at",
        "taken_back",
        "recipients",
        "assignments",
        "sizes.carried_bytes",
        "sizes.held_bytes",
        "sizes.new_bytes",
        "unknown",
        "sites.all",
        "sites.runs",
        "sites.took",
        "sites.not_taken",
        "sites.other_content",
        "sites.beyond",
        "sites.behind",
        "sites.never",
    ];
}

impl Columns for DecisionRow {
    const COLUMNS: &'static [&'static str] = &[
        "number",
        "decided_at",
        "environment",
        "to",
        "commit",
        "verdict",
        "asked_by",
        "digest",
    ];
}

impl Columns for ActRow {
    const COLUMNS: &'static [&'static str] = &[
        "number",
        "kind",
        "at",
        "by",
        "reason",
        "sentence",
        "environment",
        "commit",
        "site",
        "until",
        "withdraws",
        "withdrawn",
        "in_force",
    ];
}

impl Columns for AccessRow {
    const COLUMNS: &'static [&'static str] = &[
        "number", "at", "who", "how", "peer", "action", "detail", "allowed",
    ];
}

/// Why rows are no table.
#[derive(Debug, thiserror::Error)]
#[error("a row cannot be written")]
pub struct TableError(#[source] Box<dyn std::error::Error + Send + Sync>);

/// The rows as a table.
///
/// # Errors
/// [`TableError`] of a row that is no JSON, or of a line that cannot be written.
pub fn csv<T: Columns>(rows: &[T]) -> Result<String, TableError> {
    written(rows).map_err(TableError)
}

fn written<T: Columns>(rows: &[T]) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let mut table = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    table.write_record(T::COLUMNS.iter().map(|column| column.replace('.', "_")))?;
    for row in rows {
        let row = serde_json::to_value(row)?;
        let cell = |column: &&str| {
            let field = row.pointer(&format!("/{}", column.replace('.', "/")));
            plain(&text_of(field.unwrap_or(&Value::Null)))
        };
        table.write_record(T::COLUMNS.iter().map(cell))?;
    }
    let bytes = table
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8(bytes)?)
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => match values.as_slice() {
            [Value::Number(first), Value::Number(last)] if first == last => first.to_string(),
            [Value::Number(first), Value::Number(last)] => format!("{first}–{last}"),
            values => values.iter().map(text_of).collect::<Vec<_>>().join(" "),
        },
        other => other.to_string(),
    }
}

/// The text of one cell, which no spreadsheet takes for a formula.
fn plain(text: &str) -> String {
    let text = printable(text);
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let mark = if is_formula { "'" } else { "" };
    format!("{mark}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use utoipa::PartialSchema;
    use utoipa::openapi::{RefOr, Schema};

    fn fields_of<T: PartialSchema>() -> Vec<String> {
        match T::schema() {
            RefOr::T(Schema::Object(object)) => object.properties.into_keys().collect(),
            _ => Vec::new(),
        }
    }

    #[track_caller]
    fn has_its_columns<T: Columns + PartialSchema>(nested: &[(&str, Vec<String>)]) {
        let fields = fields_of::<T>();
        for column in T::COLUMNS {
            let (outer, inner) = column.split_once('.').unwrap_or((column, ""));
            assert!(fields.iter().any(|field| field == outer), "{column}");
            let of_field = nested.iter().find(|(name, _)| *name == outer);
            let is_there = of_field.map(|(_, fields)| fields.iter().any(|field| field == inner));
            assert!(is_there.unwrap_or(inner.is_empty()), "{column}");
        }
    }

    #[test]
    fn each_column_is_a_field() {
        use outhaul_bundle::hub_api::{BundleSites, BundleSizes};
        has_its_columns::<SiteRow>(&[]);
        has_its_columns::<AssignmentRow>(&[]);
        has_its_columns::<RequestRow>(&[]);
        has_its_columns::<IngestRefusal>(&[]);
        has_its_columns::<DecisionRow>(&[]);
        has_its_columns::<ActRow>(&[]);
        has_its_columns::<AccessRow>(&[]);
        has_its_columns::<BundleRow>(&[
            ("sizes", fields_of::<BundleSizes>()),
            ("sites", fields_of::<BundleSites>()),
        ]);
    }

    #[derive(Serialize)]
    struct Row {
        name: &'static str,
        missing: Vec<(u64, u64)>,
        of: Option<[u8; 3]>,
    }

    impl Columns for Row {
        const COLUMNS: &'static [&'static str] = &["name", "missing", "of"];
    }

    #[test]
    fn a_cell_is_text_and_no_formula() {
        let row = |name| Row {
            name,
            missing: vec![(3, 3), (7, 9)],
            of: None,
        };
        let names = ["plain", "a, \"b\"", "=1+1", "@x", "two\nlines"];
        let table = csv(&names.map(row)).unwrap();
        assert_eq!(
            table,
            "name,missing,of\r\nplain,3 7–9,\r\n\"a, \"\"b\"\"\",3 7–9,\r\n'=1+1,3 7–9,\r\n'@x,3 7–9,\r\n\
             two\\u{a}lines,3 7–9,\r\n"
        );
    }
}
