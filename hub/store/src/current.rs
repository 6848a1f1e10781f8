//! The current state: what follows from everything that was ever reported.
//!
//! What comes in: the append-only tables. What goes out: one [`SiteState`] per registered site, those
//! that never reported included. The newest report of the newest epoch tells the present, whenever and
//! however it came, so a rollback, a late stick and a report out of order come out right. Which reports tell
//! it is kept as they come in (`kept`), so no answer reads history.

use std::collections::BTreeMap;

use outhaul_gate::facts::{Attempt, ObservedAssignment, ObservedAssignments, Running, SiteState};

use super::db::Params;
use super::site_rows::{self, Parts, Ranges};
use super::{Session, StoreError, from_sql, to_sql};

/// Which of the registered sites are asked for, in the order of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SitePage<'a> {
    /// Of this environment, those that are not revoked; `None` for any.
    pub environment: Option<&'a str>,
    /// Those after this name; empty for all.
    pub after: &'a str,
    /// At most so many.
    pub limit: u64,
    /// So many before them are left out.
    pub offset: u64,
    /// From this name on, which counts itself; `after` is not looked at then.
    pub from: Option<&'a str>,
    /// Those of which the name, environment and cluster type are so.
    pub only: SiteFilter<'a>,
}

/// What sites are looked for by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SiteFilter<'a> {
    /// Part of the name; empty for any.
    pub named: &'a str,
    /// The environment, revoked sites included.
    pub environment: Option<&'a str>,
    /// The cluster type.
    pub cluster_type: Option<&'a str>,
}

/// The parameters of [`CHOSEN`].
pub(super) type Bounds<'a> = (
    String,
    Option<&'a str>,
    String,
    Option<&'a str>,
    Option<&'a str>,
    i64,
    i64,
);

impl<'a> SitePage<'a> {
    /// All of them.
    pub const ALL: Self = Self {
        environment: None,
        after: "",
        limit: u64::MAX,
        offset: 0,
        from: None,
        only: SiteFilter {
            named: "",
            environment: None,
            cluster_type: None,
        },
    };

    /// The site of this name, or the one after where there is none.
    pub const fn named(site: &'a str) -> Self {
        Self {
            from: Some(site),
            limit: 1,
            ..Self::ALL
        }
    }

    /// All that a gate of an environment waits for.
    pub const fn at_gate(environment: &'a str) -> Self {
        Self {
            environment: Some(environment),
            ..Self::ALL
        }
    }

    /// As parameters of [`CHOSEN`].
    pub(super) fn bounds(self) -> Bounds<'a> {
        // No name has a control character: so the first one after `after` is the least that can follow it.
        let first = match self.from {
            Some(name) => name.to_owned(),
            None if self.after.is_empty() => String::new(),
            None => format!("{}\u{1}", self.after),
        };
        (
            first,
            self.environment,
            containing(self.only.named),
            self.only.environment,
            self.only.cluster_type,
            to_sql(self.limit),
            to_sql(self.offset),
        )
    }
}

/// The pattern of texts that contain `part`, for `LIKE` with `\` before what stands for itself.
fn containing(part: &str) -> String {
    let mut pattern = String::from("%");
    for letter in part.chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

/// The sites of a [`SitePage`], as `$1` to `$7`: `SQLite` counts them by their first place in the text.
pub(super) const CHOSEN: &str = "WITH chosen AS (SELECT site AS chosen FROM sites
      WHERE site >= $1
        AND (CAST($2 AS TEXT) IS NULL OR (environment = $2 AND revoked_ms IS NULL))
        AND site LIKE $3 ESCAPE '\\'
        AND (CAST($4 AS TEXT) IS NULL OR environment = $4)
        AND (CAST($5 AS TEXT) IS NULL OR cluster_type = $5)
      ORDER BY site LIMIT $6 OFFSET $7)";

impl Session<'_> {
    /// How many sites are registered, revoked ones included.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn count_sites(&self) -> Result<u64, StoreError> {
        let text = "SELECT COUNT(*) FROM sites";
        Ok(from_sql(self.db.query_row(text, [], |row| row.get(0))?))
    }

    /// The state of every registered site, by name, revoked ones included.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn site_states(&self) -> Result<Vec<SiteState>, StoreError> {
        self.site_states_of(SitePage::ALL)
    }

    /// The same of some.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn site_states_of(&self, page: SitePage<'_>) -> Result<Vec<SiteState>, StoreError> {
        let mut parts = Parts {
            running: self.running(page)?,
            attempts: self.attempts(page)?,
            declared_lost: self.declared_lost(page)?,
            missing: self.missing(page)?,
            conflicts: self.open_conflicts()?,
        };
        let mut query = self.db.prepare_cached(&format!(
            "{CHOSEN} SELECT s.site, s.role, s.environment, s.cluster_type, k.key_id, s.enrolled_ms,
                    s.revoked_ms, r.epoch, r.number, r.digest, r.via, r.received_ms, r.wall_ms,
                    r.clock_trusted, e.acked, s.counts_from_ms
               FROM chosen JOIN sites s ON s.site = chosen
               JOIN site_keys k ON k.site = s.site AND k.generation = s.key_generation
               LEFT JOIN current_states c ON c.site = s.site
               LEFT JOIN epochs e ON e.site = c.site AND e.epoch = c.epoch
               LEFT JOIN reports r
                 ON r.site = c.site AND r.epoch = c.epoch AND r.number = c.newest
              ORDER BY s.site"
        ))?;
        let rows = query.query_map(page.bounds(), |row| parts.site(row))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn running(&self, page: SitePage<'_>) -> Result<BTreeMap<String, Running>, StoreError> {
        let sets = self.sets(page)?;
        let mut query = self.db.prepare_cached(&format!(
            "{CHOSEN} SELECT o.site, o.number, r.digest, r.received_ms, o.role, o.bundle_number,
                    o.index_digest, o.base_commit, o.state, o.message, r.wall_ms, r.lower_bound_ms, o.webhook,
                    o.environment_commit, o.assignments
               FROM chosen JOIN current_states c ON c.site = chosen
               JOIN observations o
                 ON o.site = c.site AND o.epoch = c.epoch AND o.number = c.running
               JOIN reports r ON r.site = o.site AND r.epoch = o.epoch AND r.number = o.number"
        ))?;
        let rows = query.query_map(page.bounds(), |row| {
            let set: String = row.get(14)?;
            site_rows::running(row, sets.get(&set).cloned().unwrap_or_default())
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// What these sites say of their assignments, by the digest of the set: few, because sites of a stream say the same.
    fn sets(
        &self,
        page: SitePage<'_>,
    ) -> Result<BTreeMap<String, ObservedAssignments>, StoreError> {
        let mut query = self.db.prepare_cached(&format!(
            "{CHOSEN} SELECT a.digest, a.assignment, a.status, a.config_version, a.message
               FROM (SELECT DISTINCT o.assignments AS digest
                       FROM chosen JOIN current_states c ON c.site = chosen
                       JOIN observations o
                         ON o.site = c.site AND o.epoch = c.epoch AND o.number = c.running) AS said
               JOIN assignment_sets a ON a.digest = said.digest"
        ))?;
        let mut rows = query.query(page.bounds())?;
        let mut found: BTreeMap<String, BTreeMap<String, ObservedAssignment>> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let set = found.entry(row.get(0)?).or_default();
            let (name, observed) = site_rows::assignment(&row)?;
            set.insert(name, observed);
        }
        let shared = |(digest, set): (String, BTreeMap<_, _>)| (digest, set.into());
        Ok(found.into_iter().map(shared).collect())
    }

    /// The newest that each site reported about a bundle above the one that it runs: on its way, turned away, or
    /// left again. A look at what runs does not end it; a bundle that takes its place does.
    fn attempts(&self, page: SitePage<'_>) -> Result<BTreeMap<String, Attempt>, StoreError> {
        let mut query = self.db.prepare_cached(&format!(
            "{CHOSEN}
             SELECT c.site, o.number, o.bundle_number, o.state, o.message, NULL AS decided_by
               FROM chosen JOIN current_states c ON c.site = chosen
               JOIN observations o
                 ON o.site = c.site AND o.epoch = c.epoch AND o.number = c.attempt
              WHERE c.attempt_left = 0
             UNION ALL
             SELECT c.site, v.number, v.bundle_number, 'reverted', v.reason, v.decided_by
               FROM chosen JOIN current_states c ON c.site = chosen
               JOIN reverts v ON v.site = c.site AND v.epoch = c.epoch AND v.number = c.attempt
              WHERE c.attempt_left = 1"
        ))?;
        let rows = query.query_map(page.bounds(), site_rows::attempt)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Below what is acknowledged nothing is missing that was not declared lost, so only what lies above is
    /// looked through.
    fn missing(&self, page: SitePage<'_>) -> Result<Ranges, StoreError> {
        let text = format!(
            "{CHOSEN}
             SELECT site, before + 1, number - 1 FROM (
                 SELECT r.site, r.number,
                        COALESCE(LAG(r.number) OVER (PARTITION BY r.site ORDER BY r.number),
                                 e.acked) AS before
                   FROM chosen JOIN current_states c ON c.site = chosen
                   JOIN epochs e ON e.site = c.site AND e.epoch = c.epoch
                   JOIN reports r
                     ON r.site = c.site AND r.epoch = c.epoch AND r.number > e.acked
                  WHERE c.newest > e.acked) AS steps
              WHERE number > before + 1 ORDER BY site, number"
        );
        self.ranges(&text, page.bounds())
    }

    fn declared_lost(&self, page: SitePage<'_>) -> Result<Ranges, StoreError> {
        let text = format!(
            "{CHOSEN} SELECT g.site, g.first_lost, g.last_lost
               FROM chosen JOIN current_states c ON c.site = chosen
               JOIN declared_gaps g ON g.site = c.site AND g.epoch = c.epoch
              ORDER BY g.site, g.first_lost"
        );
        self.ranges(&text, page.bounds())
    }

    pub(super) fn ranges(&self, text: &str, bounds: impl Params) -> Result<Ranges, StoreError> {
        let mut query = self.db.prepare_cached(text)?;
        let mut rows = query.query(bounds)?;
        let mut found: Ranges = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let range = (from_sql(row.get(1)?), from_sql(row.get(2)?));
            found.entry(row.get(0)?).or_default().push(range);
        }
        Ok(found)
    }
}
