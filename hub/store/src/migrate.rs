//! The tables, and how those of an older hub become those of now: one list for both databases.
//!
//! What comes in: an open database of any version. What goes out: the same with the newest tables. A text is written once, for `SQLite`
//! and PostgreSQL; they differ in how texts are compared, which on a server is said per column, and in lines that begin with
//! `-- server: `, which a server alone runs. All of it is one transaction.

use super::db::{Connection, params};
use super::{Session, Store, StoreError, to_sql};

/// Each entry is run once, in order, and never changed after a release.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_overlays.sql"),
    include_str!("migrations/0003_orders.sql"),
    include_str!("migrations/0004_signing_order.sql"),
    include_str!("migrations/0005_order_outcomes.sql"),
    include_str!("migrations/0006_siege.sql"),
    include_str!("migrations/0007_signers.sql"),
    include_str!("migrations/0008_sites_of_assignments.sql"),
    include_str!("migrations/0009_current_states.sql"),
    include_str!("migrations/0010_gate_records.sql"),
    include_str!("migrations/0011_refused_files.sql"),
    include_str!("migrations/0012_audit.sql"),
    include_str!("migrations/0013_conflicts_and_restores.sql"),
    include_str!("migrations/0014_kalypso.sql"),
    include_str!("migrations/0015_assignment_sets.sql"),
    include_str!("migrations/0016_access.sql"),
    include_str!("migrations/0017_alerts.sql"),
    include_str!("migrations/0018_materials.sql"),
    include_str!("migrations/0019_people.sql"),
    include_str!("migrations/0020_stream_sites.sql"),
    include_str!("migrations/0021_retention.sql"),
    include_str!("migrations/0022_carried_statements.sql"),
    include_str!("migrations/0023_counts_from.sql"),
    include_str!("migrations/0024_explanations.sql"),
    include_str!("migrations/0025_envelope_parts.sql"),
    include_str!("migrations/0026_times_of_decisions.sql"),
    include_str!("migrations/0027_checks.sql"),
    include_str!("migrations/0028_webhooks.sql"),
    include_str!("migrations/0029_environment_commits.sql"),
];

/// What begins a line that a server alone runs.
const ON_SERVER: &str = "-- server: ";
/// Kalypso's tables, as views of these: on a server only.
const KALYPSO: &str = include_str!("kalypso.sql");
/// After this migration older reports are read for what its new table holds.
const READS_OLDER_REFUSALS: usize = 5;
/// After this one what reports state of assignments is kept once for all that state the same.
const KEEPS_SETS: usize = 14;
/// After this one the present state of each site is worked out from what was reported before.
const KEEPS_CURRENT_STATES: usize = 8;
/// After this one it is worked out where each site stands in its stream.
const KEEPS_STREAM_SITES: usize = 19;
/// After this one waivers are entries beside approvals and deferrals.
const RECORDS_GATE_ACTS: usize = 9;

impl Store {
    /// The version of the tables that this program makes.
    pub fn newest_version() -> u64 {
        MIGRATIONS.len() as u64
    }

    /// Brings the tables up to the version of this program.
    pub(super) fn migrate(&mut self) -> Result<(), StoreError> {
        self.migrate_to(MIGRATIONS.len())?;
        self.is_migrated = true;
        Ok(())
    }

    /// Brings the tables up to version `newest`.
    pub(super) fn migrate_to(&mut self, newest: usize) -> Result<(), StoreError> {
        // Whoever may use the tables of a server need not be allowed to make some.
        if self.is_on_server() && self.read(|session| session.has_version(newest))? {
            return Ok(());
        }
        self.write(|session| {
            let found = version(session.db)?;
            let done = usize::try_from(found).unwrap_or(usize::MAX);
            session.refuse_newer()?;
            for (at, text) in MIGRATIONS.iter().enumerate().take(newest).skip(done) {
                match session.db.is_server() {
                    true => session.db.execute_batch(&for_server(text))?,
                    false => session.db.execute_batch(text)?,
                }
                if at == READS_OLDER_REFUSALS {
                    session.read_older_refusals()?;
                }
                if at == KEEPS_SETS {
                    session.fold_assignments()?;
                }
                let number = to_sql(at as u64 + 1);
                session.db.execute(
                    "INSERT INTO migrations (version) VALUES ($1)",
                    params![number],
                )?;
            }
            // With all tables as they are now.
            if (done..newest).contains(&KEEPS_CURRENT_STATES) {
                session.keep_all_current()?;
            }
            if (done..newest).contains(&KEEPS_STREAM_SITES) {
                session.keep_all_stream_sites()?;
            }
            if (done..newest).contains(&RECORDS_GATE_ACTS) {
                session.carry_waivers_over()?;
            }
            if session.db.is_server() && done < newest {
                session.db.execute_batch(KALYPSO)?;
            }
            Ok(())
        })
    }
}

impl Session<'_> {
    /// The version of the tables.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub(super) fn version(&self) -> Result<i64, StoreError> {
        let newest = "SELECT COALESCE(MAX(version), 0) FROM migrations";
        Ok(self.db.query_row(newest, [], |row| row.get(0))?)
    }
}

impl Session<'_> {
    /// That no newer program has migrated the tables.
    ///
    /// # Errors
    /// [`StoreError::Newer`], or [`StoreError`] when the store fails.
    pub(super) fn refuse_newer(&self) -> Result<(), StoreError> {
        let (found, known) = (self.version()?, MIGRATIONS.len());
        match found > to_sql(known as u64) {
            true => Err(StoreError::Newer { found, known }),
            false => Ok(()),
        }
    }

    /// Whether the tables of a server are of this very version.
    fn has_version(&self, newest: usize) -> Result<bool, StoreError> {
        let text = "SELECT to_regclass('migrations') IS NOT NULL";
        if !self.db.query_row(text, [], |row| row.get::<_, bool>(0))? {
            return Ok(false);
        }
        Ok(self.version()? == to_sql(newest as u64))
    }
}

fn version(db: &Connection) -> Result<i64, StoreError> {
    db.execute_batch("CREATE TABLE IF NOT EXISTS migrations (version BIGINT PRIMARY KEY)")?;
    Session { db }.version()
}

/// The text as a server runs it: texts are compared byte by byte, whatever the language of the database, so that both databases
/// give rows in one order.
fn for_server(text: &str) -> String {
    let mut made = String::with_capacity(text.len() * 2);
    for line in text.lines() {
        if let Some(only) = line.strip_prefix(ON_SERVER) {
            made.push_str(only);
            made.push('\n');
            continue;
        }
        let (code, comment) = line.split_once("--").unwrap_or((line, ""));
        let words = code.split_inclusive([' ', ',', '(', ')', ';']);
        for word in words {
            match word.strip_prefix("TEXT") {
                Some(end) if end.len() <= 1 => {
                    made.push_str("TEXT COLLATE \"C\"");
                    made.push_str(end);
                }
                _ => made.push_str(word),
            }
        }
        if !comment.is_empty() {
            made.push_str("--");
            made.push_str(comment);
        }
        made.push('\n');
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_compares_texts_byte_by_byte() {
        let text = "CREATE TABLE a (\n    b TEXT PRIMARY KEY, -- TEXT\n    c TEXT\n)\n-- server: PARTITION BY LIST (b)\n;\nALTER TABLE a ADD COLUMN d TEXT;";
        let made = for_server(text);
        assert!(made.contains("\n)\nPARTITION BY LIST (b)\n;"), "{made}");
        assert_eq!(made.matches("TEXT COLLATE \"C\"").count(), 3, "{made}");
        assert!(
            made.contains("b TEXT COLLATE \"C\" PRIMARY KEY, -- TEXT"),
            "{made}"
        );
    }
    #[test]
    fn a_program_that_runs_on_writes_nothing_once_a_newer_one_has_migrated_the_tables() {
        let mut store = Store::in_memory().unwrap();
        let writes = |store: &mut Store, version: i64| {
            store.write(|session| {
                let text = "INSERT INTO migrations (version) VALUES ($1)";
                session.db.execute(text, params![version])?;
                Ok::<_, StoreError>(())
            })
        };
        writes(&mut store, 9_000).unwrap();
        let refused = writes(&mut store, 9_001).unwrap_err();
        assert!(
            matches!(refused, StoreError::Newer { found: 9_000, .. }),
            "{refused}"
        );
        let version = store.read(|session: &Session<'_>| session.version());
        assert_eq!(version.unwrap(), 9_000);
    }
}
