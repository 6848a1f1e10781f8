//! Reports whose signed text is gone: a person states so, and the rest of the record can be copied and exported again.
//!
//! What comes in: a report on record, who states that its text is lost, and why. What goes out: an entry among what people decided,
//! and the report's number among those that are no longer kept, in one transaction; or why not. A report that has its text is
//! never removed here, and neither is one that a site's present state rests on. A text that is not that of the report, by its digest, is lost.

use outhaul_gate::facts::{Act, ActKind};

use super::db::{OptionalExtension as _, params};
use super::envelopes::{ENVELOPE, kept};
use super::{Session, SitePage, StoreError, to_sql};

/// What became of a statement that a report's signed text is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LostText {
    /// There is no such report on record.
    NoReport,
    /// Its text is there.
    IsThere,
    /// The present state of its site rests on it.
    StateRestsOnIt,
    /// It is on record, under this number.
    Recorded(i64),
}

impl Session<'_> {
    /// Puts on record that the signed text of a report is lost, and counts its number among those that are no longer kept.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn record_lost_text(
        &self,
        (site, epoch, number): (&str, &str, u64),
        (by, reason): (&str, &str),
        now_ms: i64,
    ) -> Result<LostText, StoreError> {
        let text = format!(
            "SELECT r.digest, {ENVELOPE} FROM reports r WHERE r.site = $1 AND r.epoch = $2 AND r.number = $3"
        );
        let key = params![site, epoch, to_sql(number)];
        let found = self.db.query_row(&text, key, |row| {
            let digest: String = row.get(0)?;
            let is_lost = kept(row.get(1)?, &digest).is_none();
            Ok((digest, is_lost))
        });
        let Some((digest, is_lost)) = found.optional()? else {
            return Ok(LostText::NoReport);
        };
        if !is_lost {
            return Ok(LostText::IsThere);
        }
        if self.state_rests_on((site, epoch, number))? {
            return Ok(LostText::StateRestsOnIt);
        }
        let rule = "its signed text was lost";
        let removal = self.begin_removal((by, rule), now_ms, now_ms)?;
        self.remove_reports((site, epoch), (number, number), (removal, 0, now_ms))?;
        self.count_removed_site(removal)?;
        self.end_removal(removal, now_ms)?;
        let act = Act {
            site: Some(site.to_owned()),
            epoch: Some(epoch.to_owned()),
            chosen: Some(format!("{number} {digest}")),
            ..Act::new(ActKind::Lost, by, reason, now_ms)
        };
        Ok(LostText::Recorded(self.add_act(&act)?))
    }

    /// Whether the present state of a site follows from this report.
    fn state_rests_on(&self, (site, epoch, number): (&str, &str, u64)) -> Result<bool, StoreError> {
        let state = self.site_states_of(SitePage::named(site))?.into_iter();
        let state = state.into_iter().find(|state| state.site == site);
        Ok(state.is_some_and(|state| {
            let newest = state.newest.as_ref();
            let of_state = [
                newest.map(|newest| newest.number),
                state.running.as_ref().map(|running| running.report),
                state.attempt.as_ref().map(|attempt| attempt.report),
            ];
            newest.is_some_and(|newest| newest.epoch == epoch) && of_state.contains(&Some(number))
        }))
    }
}
