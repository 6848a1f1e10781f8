//! Advisories and statements about exploitability, as someone imported them.
//!
//! What comes in: documents that were read, with who brought them. What goes out: the same. An advisory that comes again takes the
//! place of the one before; a document of statements is kept by its digest. What they mean is not decided here.

use std::collections::BTreeSet;

use outhaul_affected::Advisory;
use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::ImportOutcome;
use outhaul_vex::Statement;

use super::db::{OptionalExtension as _, params};
use super::{Session, StoreError, json, parse, to_sql};

/// A document that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Its name: of an advisory its `id`, of statements the document's digest.
    pub name: String,
    /// As it was imported.
    pub body: String,
    /// When, milliseconds since 1970.
    pub imported_ms: i64,
    /// Who brought it.
    pub imported_by: String,
}

impl Session<'_> {
    /// Keeps an advisory. One that was changed earlier than the one on record is not kept.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn put_advisory(
        &self,
        advisory: &Advisory,
        body: &str,
        by: &str,
        now_ms: i64,
    ) -> Result<ImportOutcome, StoreError> {
        let id = advisory.id.as_str();
        let before = self.advisory_body(id)?;
        let known = before
            .as_ref()
            .and_then(|text| Advisory::read(text.as_bytes()).ok());
        let is_older = known.is_some_and(|known| advisory.modified_ms() < known.modified_ms());
        if before.as_deref() == Some(body) {
            return Ok(ImportOutcome::Known);
        }
        if is_older {
            return Ok(ImportOutcome::Older);
        }
        self.forget_advisory(id)?;
        let text =
            "INSERT INTO advisories (id, body, imported_ms, imported_by) VALUES ($1, $2, $3, $4)";
        self.db.execute(text, params![id, body, now_ms, by])?;
        let mut insert = self.db.prepare_cached(
            "INSERT INTO advisory_names (name, advisory) VALUES ($1, $2) ON CONFLICT (name, advisory) DO NOTHING",
        )?;
        for name in advisory.names() {
            insert.execute(params![name, id])?;
        }
        Ok(match before {
            None => ImportOutcome::New,
            Some(_) => ImportOutcome::Replaced,
        })
    }

    fn advisory_body(&self, id: &str) -> Result<Option<String>, StoreError> {
        let text = "SELECT body FROM advisories WHERE id = $1";
        let mut query = self.db.prepare_cached(text)?;
        Ok(query.query_row(params![id], |row| row.get(0)).optional()?)
    }

    /// Removes an advisory; whether it was there.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn forget_advisory(&self, id: &str) -> Result<bool, StoreError> {
        let names = "DELETE FROM advisory_names WHERE advisory = $1";
        self.db.execute(names, params![id])?;
        let text = "DELETE FROM advisories WHERE id = $1";
        Ok(self.db.execute(text, params![id])? > 0)
    }

    /// The advisory of this name, or those that have it as a name elsewhere.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn advisories_named(&self, name: &str) -> Result<Vec<Imported>, StoreError> {
        let text = "SELECT a.id, a.body, a.imported_ms, a.imported_by FROM advisory_names n JOIN advisories a ON a.id = n.advisory
              WHERE n.name = $1 ORDER BY CASE WHEN a.id = $1 THEN 0 ELSE 1 END, a.id";
        self.imported(text, params![name])
    }

    /// Every advisory, the one that was imported last first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn advisories(&self) -> Result<Vec<Imported>, StoreError> {
        let text = "SELECT id, body, imported_ms, imported_by FROM advisories ORDER BY imported_ms DESC, id";
        self.imported(text, [])
    }

    fn imported(
        &self,
        text: &str,
        params: impl super::db::Params,
    ) -> Result<Vec<Imported>, StoreError> {
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map(params, |row| {
            Ok(Imported {
                name: row.get(0)?,
                body: row.get(1)?,
                imported_ms: row.get(2)?,
                imported_by: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Keeps a document of statements: it is new, or known.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn put_statements(
        &self,
        statements: &[Statement],
        body: &str,
        by: &str,
        now_ms: i64,
    ) -> Result<ImportOutcome, StoreError> {
        let digest = Digest::of(body.as_bytes()).to_string();
        let text = "INSERT INTO vex_documents (digest, body, imported_ms, imported_by) VALUES ($1, $2, $3, $4)
             ON CONFLICT (digest) DO NOTHING";
        if self.db.execute(text, params![digest, body, now_ms, by])? == 0 {
            return Ok(ImportOutcome::Known);
        }
        let text = "INSERT INTO vex_statements (document, ordinal, vulnerability, statement) VALUES ($1, $2, $3, $4)";
        self.insert_statements(text, &digest, statements)?;
        Ok(ImportOutcome::New)
    }

    /// Keeps a document of statements that bundles carry, where it is not on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn keep_statements(
        &self,
        digest: &Digest,
        statements: &[Statement],
        now_ms: i64,
    ) -> Result<(), StoreError> {
        let digest = digest.to_string();
        let text = "INSERT INTO carried_documents (digest, recorded_ms) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
        if self.db.execute(text, params![digest, now_ms])? == 0 {
            return Ok(());
        }
        let text = "INSERT INTO carried_statements (document, ordinal, vulnerability, statement) VALUES ($1, $2, $3, $4)";
        self.insert_statements(text, &digest, statements)
    }

    fn insert_statements(
        &self,
        text: &str,
        digest: &str,
        statements: &[Statement],
    ) -> Result<(), StoreError> {
        let mut insert = self.db.prepare_cached(text)?;
        for (ordinal, statement) in statements.iter().enumerate() {
            let ordinal = to_sql(ordinal as u64);
            let kept = json(statement, "a statement about exploitability")?;
            for vulnerability in &statement.vulnerabilities {
                insert.execute(params![digest, ordinal, vulnerability, kept])?;
            }
        }
        Ok(())
    }

    /// Removes a document of statements by its digest; whether it was there.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn forget_statements(&self, digest: &str) -> Result<bool, StoreError> {
        let statements = "DELETE FROM vex_statements WHERE document = $1";
        self.db.execute(statements, params![digest])?;
        let text = "DELETE FROM vex_documents WHERE digest = $1";
        Ok(self.db.execute(text, params![digest])? > 0)
    }

    /// Every document of statements, the one that was imported last first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn statement_documents(&self) -> Result<Vec<Imported>, StoreError> {
        let text = "SELECT digest, body, imported_ms, imported_by FROM vex_documents ORDER BY imported_ms DESC, digest";
        self.imported(text, [])
    }

    /// The imported statements about a vulnerability that has one of these names.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn statements_about(&self, names: &BTreeSet<&str>) -> Result<Vec<Statement>, StoreError> {
        let text = "SELECT statement FROM vex_statements WHERE vulnerability = $1 ORDER BY document, ordinal";
        self.statements(text, names, None)
    }

    /// Those of a document that bundles carry.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn carried_statements_about(
        &self,
        digest: &str,
        names: &BTreeSet<&str>,
    ) -> Result<Vec<Statement>, StoreError> {
        let text = "SELECT statement FROM carried_statements WHERE vulnerability = $1 AND document = $2 ORDER BY ordinal";
        self.statements(text, names, Some(digest))
    }

    fn statements(
        &self,
        text: &str,
        names: &BTreeSet<&str>,
        document: Option<&str>,
    ) -> Result<Vec<Statement>, StoreError> {
        let mut query = self.db.prepare_cached(text)?;
        let mut found = Vec::new();
        let read = |row: &super::db::Row<'_>| row.get::<_, String>(0);
        for name in names {
            let rows = match document {
                Some(document) => query.query_map(params![name, document], read),
                None => query.query_map(params![name], read),
            };
            for row in rows? {
                let statement: Statement = parse(&row?, "a statement about exploitability")?;
                if !found.contains(&statement) {
                    found.push(statement);
                }
            }
        }
        Ok(found)
    }
}
