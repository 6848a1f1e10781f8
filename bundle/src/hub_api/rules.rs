//! The rules of a gate: what the step from one environment to the next needs, and what became of each rule.
//!
//! What comes in: rules as a promotion policy has them, in a question to a hub. What goes out: the same, checked, and
//! per rule a [`RuleVerdict`]. Times are texts in UTC. Pure: it reads no clock and decides nothing. A rule that this
//! program does not know is an error, never the absence of a rule.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde::{Deserialize, Deserializer, Serialize};

use super::bounds::{MAX_ENTRIES, within};
use super::{CheckRule, MAX_AGE_HOURS, QUORUM_PERCENT};

/// How long sites must have confirmed, in hours.
pub const SOAK_HOURS: RangeInclusive<u32> = 1..=8_760;
/// How many sites must confirm at least.
pub const MIN_SITES: RangeInclusive<u32> = 1..=1_000_000;
/// How many people must approve.
pub const APPROVALS: RangeInclusive<u32> = 1..=100;
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// What a gate asks for. What is absent is not asked for, but for the age of reports and the share of sites, which
/// have defaults at the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct GateRules {
    /// The oldest report that counts, in hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_hours: Option<u32>,
    /// The share of sites that must confirm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum_percent: Option<u8>,
    /// How many sites must confirm at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_sites: Option<u32>,
    /// For how many hours those sites must have confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak_hours: Option<u32>,
    /// Who must approve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals: Option<ApprovalRule>,
    /// Checks that must have passed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRule>,
    /// Times at which the gate is closed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<ClosedTime>,
    /// The only times of the week at which it can be open; empty for any time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<PromotionWindow>,
    /// Whether sites confirm of which the hub knows by webhook alone; they do not when absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub webhook_evidence: bool,
    /// Rules for some of the sites.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartRule>,
}

/// Approval by some of the people named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// How many of them.
    pub needed: u32,
    /// Who may approve.
    pub by: BTreeSet<String>,
}

/// A time at which nothing is promoted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ClosedTime {
    /// Its first instant: `2026-12-20` or `2026-12-20T18:00:00Z`.
    pub from: String,
    /// The first instant after it.
    pub until: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A time of the week at which promotion is allowed, in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PromotionWindow {
    /// On which days; every day when left out. An empty list is refused where it is read: it may be meant as none.
    #[serde(
        default,
        skip_serializing_if = "BTreeSet::is_empty",
        deserialize_with = "some_day"
    )]
    pub days: BTreeSet<Day>,
    /// From when: `08:00`.
    pub from: String,
    /// Until when: `17:00`, at most `24:00`.
    pub until: String,
}

impl PromotionWindow {
    /// What is wrong with an empty list of days.
    pub const NO_DAY: &str =
        "`days` of a window is an empty list: name its days, or leave `days` out for every day";
}

fn some_day<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<Day>, D::Error> {
    let days = BTreeSet::deserialize(from)?;
    match days.is_empty() {
        false => Ok(days),
        true => Err(serde::de::Error::custom(PromotionWindow::NO_DAY)),
    }
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the days of the week")]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl Day {
    /// All of them, Monday first.
    pub const ALL: [Self; 7] = [
        Self::Mon,
        Self::Tue,
        Self::Wed,
        Self::Thu,
        Self::Fri,
        Self::Sat,
        Self::Sun,
    ];

    /// `mon` to `sun`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mon => "mon",
            Self::Tue => "tue",
            Self::Wed => "wed",
            Self::Thu => "thu",
            Self::Fri => "fri",
            Self::Sat => "sat",
            Self::Sun => "sun",
        }
    }
}

/// Rules for the sites of one cluster type, or of one workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PartRule {
    /// The cluster type, such as a ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_type: Option<String>,
    /// The workload that the sites are to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The share of these sites that must confirm; all of them when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum_percent: Option<u8>,
    /// How many of them must confirm at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_sites: Option<u32>,
    /// For how many hours they must have confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak_hours: Option<u32>,
}

impl PartRule {
    /// Of what it is a rule, such as: cluster type `ring-0`, workload `camera`.
    pub fn name(&self) -> String {
        let cluster_type = self.cluster_type.as_ref();
        let workload = self.workload.as_ref();
        let parts = [
            cluster_type.map(|name| format!("cluster type `{name}`")),
            workload.map(|name| format!("workload `{name}`")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// What became of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuleVerdict {
    /// Its name, such as `soak`.
    pub rule: String,
    /// What it asks for, in words.
    pub needs: String,
    /// Whether that is so.
    pub met: bool,
    /// What was found, in words.
    pub found: String,
    /// What would make it met, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens: Option<String>,
    /// What it rests on, besides the reports of the sites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
}

impl GateRules {
    /// Whether no more is asked for than an age and a share, which every hub knows.
    pub fn is_simple(&self) -> bool {
        let simple = Self {
            max_age_hours: self.max_age_hours,
            quorum_percent: self.quorum_percent,
            ..Self::default()
        };
        *self == simple
    }

    /// Checks every bound.
    ///
    /// # Errors
    /// The first problem, in words.
    pub fn check(&self) -> Result<(), String> {
        within("max_age_hours", self.max_age_hours, &MAX_AGE_HOURS)?;
        within(
            "quorum_percent",
            self.quorum_percent.map(u32::from),
            &QUORUM_PERCENT,
        )?;
        within("min_sites", self.min_sites, &MIN_SITES)?;
        within("soak_hours", self.soak_hours, &SOAK_HOURS)?;
        if let Some(rule) = &self.approvals {
            rule.check()?;
        }
        for (what, count) in [
            ("checks", self.checks.len()),
            ("closed", self.closed.len()),
            ("windows", self.windows.len()),
            ("parts", self.parts.len()),
        ] {
            if count > MAX_ENTRIES {
                return Err(format!(
                    "`{what}` has {count} entries, {MAX_ENTRIES} at most"
                ));
            }
        }
        CheckRule::check_all(&self.checks)?;
        self.closed.iter().try_for_each(ClosedTime::check)?;
        self.windows.iter().try_for_each(PromotionWindow::check)?;
        self.parts.iter().try_for_each(PartRule::check)
    }
}

impl ApprovalRule {
    /// Checks that enough people are named.
    ///
    /// # Errors
    /// The problem, in words.
    pub fn check(&self) -> Result<(), String> {
        within("approvals.needed", Some(self.needed), &APPROVALS)?;
        if self.by.len() > MAX_ENTRIES || self.by.iter().any(|name| name.trim().is_empty()) {
            return Err(format!(
                "`approvals.by` names 1 to {MAX_ENTRIES} people, none of them empty"
            ));
        }
        let named = u32::try_from(self.by.len()).unwrap_or(u32::MAX);
        if named < self.needed {
            return Err(format!(
                "{} approvals are needed, and `approvals.by` names {named}",
                self.needed
            ));
        }
        Ok(())
    }
}

impl ClosedTime {
    /// Checks that it begins before it ends.
    ///
    /// # Errors
    /// The problem, in words.
    pub fn check(&self) -> Result<(), String> {
        self.span().map(drop)
    }

    /// Its first instant and the first after it, milliseconds since 1970.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn span(&self) -> Result<(i64, i64), String> {
        let at = |text: &str| {
            time_ms(text).ok_or_else(|| {
                format!("`{text}` is not a time (expected `2026-12-20` or `2026-12-20T18:00:00Z`)")
            })
        };
        let (from, until) = (at(&self.from)?, at(&self.until)?);
        if from < until {
            return Ok((from, until));
        }
        Err(format!(
            "`{}` to `{}` ends before it begins",
            self.from, self.until
        ))
    }
}

impl PromotionWindow {
    /// Checks that it begins before it ends.
    ///
    /// # Errors
    /// The problem, in words.
    pub fn check(&self) -> Result<(), String> {
        self.minutes().map(drop)
    }

    /// Its first minute of the day and the first after it.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn minutes(&self) -> Result<(i64, i64), String> {
        let at = |text: &str| {
            minute_of_day(text)
                .ok_or_else(|| format!("`{text}` is not a time of day (expected `08:00`)"))
        };
        let (from, until) = (at(&self.from)?, at(&self.until)?);
        if from < until {
            return Ok((from, until));
        }
        Err(format!(
            "`{}` to `{}` ends before it begins; write two windows for a night",
            self.from, self.until
        ))
    }

    /// Whether `at_ms`, milliseconds since 1970, is in it. What cannot be read holds nothing.
    pub fn holds(&self, at_ms: i64) -> bool {
        let Ok((from, until)) = self.minutes() else {
            return false;
        };
        let minute = at_ms.rem_euclid(DAY_MS) / MINUTE_MS;
        (self.days.is_empty() || self.days.contains(&day_of(at_ms)))
            && (from..until).contains(&minute)
    }

    /// `mon, tue 08:00 to 17:00 UTC`.
    pub fn name(&self) -> String {
        let days: Vec<&str> = self.days.iter().map(|day| day.as_str()).collect();
        let days = if days.is_empty() {
            "every day".to_owned()
        } else {
            days.join(", ")
        };
        format!("{days} {} to {} UTC", self.from, self.until)
    }
}

impl PartRule {
    /// Checks that it is for something and asks for something.
    ///
    /// # Errors
    /// The problem, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.cluster_type.is_none() && self.workload.is_none() {
            return Err("a part names a cluster type or a workload".to_owned());
        }
        within(
            "parts.quorum_percent",
            self.quorum_percent.map(u32::from),
            &QUORUM_PERCENT,
        )?;
        within("parts.min_sites", self.min_sites, &MIN_SITES)?;
        within("parts.soak_hours", self.soak_hours, &SOAK_HOURS)
    }
}

/// The day of the week of a time.
fn day_of(at_ms: i64) -> Day {
    // The first of January 1970 was a Thursday.
    let number = (at_ms.div_euclid(DAY_MS) + 3).rem_euclid(7);
    Day::ALL[usize::try_from(number).unwrap_or_default()]
}

/// `08:30` as minutes since midnight; `24:00` is the end of the day.
fn minute_of_day(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    let total = hours * 60 + minutes;
    (minutes < 60 && total <= 24 * 60).then_some(total)
}

/// `2026-12-20`, its first instant, or `2026-12-20T18:00:00Z`, in milliseconds since 1970.
pub fn time_ms(text: &str) -> Option<i64> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time.strip_suffix('Z')?)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let (year, month, day) = (
        digits(parts.next()?, 4)?,
        digits(parts.next()?, 2)?,
        digits(parts.next()?, 2)?,
    );
    if parts.next().is_some() || !(1..=12).contains(&month) || year < 1970 {
        return None;
    }
    if day < 1 || day > days_of_month(year, month) {
        return None;
    }
    let seconds = match time {
        None => 0,
        Some(time) => {
            let (minutes, seconds) = time.rsplit_once(':')?;
            let (minutes, seconds) = (minute_of_day(minutes)?, digits(seconds, 2)?);
            if seconds > 59 || minutes >= 24 * 60 {
                return None;
            }
            minutes * 60 + seconds
        }
    };
    Some(days_since_1970(year, month, day) * DAY_MS + seconds * 1000)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let well = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    well.then(|| text.parse().ok()).flatten()
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    let months: i64 = (1..month).map(|month| days_of_month(year, month)).sum();
    years + months + day - 1
}

#[cfg(test)]
mod tests;
