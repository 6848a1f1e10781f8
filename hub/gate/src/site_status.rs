//! Where one site stands in a gate's question.
//!
//! What comes in: the question, the facts, one site that has to report. What goes out: its
//! [`SiteStatus`] and a sentence for people. The checks go from "we do not know" to "we know it is
//! well"; only a site that passes all of them confirms.

use super::{Facts, GateQuestion, SiteDecision, SiteStatus, short};
use crate::facts::{ActKind, DesiredBundle, Newest, Running, SiteState};
use crate::time;

/// How far in the future a report may have been received before the hub's clock is in doubt.
const CLOCK_SLACK_MS: i64 = 5 * 60 * 1000;

/// Where `site`, which is in the question's environment and not revoked, stands.
pub(crate) fn of(question: &GateQuestion, facts: &Facts<'_>, site: &SiteState) -> SiteDecision {
    let needed = needed(&question.commit, facts.bundles, site);
    let (mut standing, mut message) = match &site.conflict {
        Some(conflict) => (
            SiteStatus::Conflict,
            conflict.sentence(&site.site, question.edition),
        ),
        None => assess(question, facts, site, needed),
    };
    // A waiver is not evidence: also where the site confirms, it does not count.
    if (standing != SiteStatus::Confirmed || question.edition >= 2)
        && let Some((status, text)) = excused(question, facts, site, standing, &message)
    {
        (standing, message) = (status, text);
    }
    SiteDecision {
        site: site.site.clone(),
        cluster_type: site.cluster_type.clone(),
        standing,
        message,
        bundle: site.running.as_ref().map(|running| running.bundle),
        needs: needed.map(|bundle| bundle.number),
        last_seen: site
            .newest
            .as_ref()
            .map(|newest| time::rfc3339(newest.received_ms)),
    }
}

/// The first bundle of a site's stream that brings the commit to it.
pub fn needed<'a>(
    commit: &str,
    bundles: &'a [DesiredBundle],
    site: &SiteState,
) -> Option<&'a DesiredBundle> {
    bundles
        .iter()
        .filter(|b| b.role == site.role && b.base_commit == commit && is_for(b, site))
        .filter(|b| !b.taken_back)
        .min_by_key(|bundle| bundle.number)
}

/// What people decided about a site that does not confirm: a waiver goes over everything until it ends, a deferral over
/// what is missing only, and after its deadline no share of other sites goes over it.
fn excused(
    question: &GateQuestion,
    facts: &Facts<'_>,
    site: &SiteState,
    standing: SiteStatus,
    message: &str,
) -> Option<(SiteStatus, String)> {
    let of_site = |kind| {
        facts
            .acts
            .iter()
            .filter(move |act| act.kind == kind && act.site.as_ref() == Some(&site.site))
    };
    let would_be = format!("it would be `{}`: it {message}", standing.as_str());
    let waiver = of_site(ActKind::Waive)
        .filter(|act| act.until_ms() > question.now_ms && facts.counts(act))
        .max_by_key(|act| act.until_ms());
    if let Some(waiver) = waiver {
        let (until, by, reason) = (time::rfc3339(waiver.until_ms()), &waiver.by, &waiver.reason);
        return Some((
            SiteStatus::Waived,
            format!("is waived until {until} by {by} ({reason}); {would_be}"),
        ));
    }
    // A later deferral replaces an earlier one.
    let deferral = of_site(ActKind::Defer).max_by_key(|act| act.id)?;
    if !standing.is_missing() {
        return None;
    }
    let (until, by, reason) = (
        time::rfc3339(deferral.until_ms()),
        &deferral.by,
        &deferral.reason,
    );
    if deferral.until_ms() > question.now_ms && !facts.counts(deferral) {
        return None;
    }
    if deferral.until_ms() > question.now_ms {
        let text = format!("is deferred until {until} by {by} ({reason}); {would_be}");
        return Some((SiteStatus::Deferred, text));
    }
    let text = format!(
        "was deferred until {until} by {by} ({reason}), and that is over; `{}`: it {message}",
        standing.as_str()
    );
    Some((SiteStatus::Overdue, text))
}

/// Whoever stole a key may have signed it, under any number and as coming from any commit.
fn taken_back(facts: &Facts<'_>, running: &Running) -> Option<(SiteStatus, String)> {
    let known = known(facts, running)?;
    let text = format!(
        "runs bundle {}, which a key signed that was taken away from its stream since: that proves nothing; a \
         bundle of today's keys makes it good",
        running.bundle
    );
    known
        .taken_back
        .then_some((SiteStatus::SignerRevoked, text))
}

/// The newest report of a site. What it reported before it was revoked proves nothing after it was registered again.
fn newest(site: &SiteState, now_ms: i64) -> Result<&Newest, (SiteStatus, String)> {
    let Some(newest) = &site.newest else {
        let since = time::ago(site.enrolled_ms, now_ms);
        let text = format!("never reported (enrolled {since})");
        return Err((SiteStatus::NeverReported, text));
    };
    let running = site.running.as_ref();
    let shown_ms = running.map_or(newest.received_ms, |running| running.received_ms);
    let Some(from_ms) = site.counts_from_ms.filter(|from_ms| shown_ms < *from_ms) else {
        return Ok(newest);
    };
    let text = format!(
        "has not reported what it runs since it was registered again ({}): what it reported before it was revoked counts for nothing",
        time::ago(from_ms, now_ms)
    );
    Err((SiteStatus::NeverReported, text))
}

fn assess(
    question: &GateQuestion,
    facts: &Facts<'_>,
    site: &SiteState,
    needed: Option<&DesiredBundle>,
) -> (SiteStatus, String) {
    let now_ms = question.now_ms;
    let newest = match newest(site, now_ms) {
        Ok(newest) => newest,
        Err(void) => return void,
    };
    // What is known to be wrong comes before what is merely old: a failure does not expire.
    if let Some(running) = &site.running {
        if running.role != site.role {
            let other = format!(
                "runs bundle {} of stream `{}`",
                running.bundle, running.role
            );
            return (SiteStatus::OtherStream, other);
        }
        if let Some(unknown) = without_bundle(question.edition, running) {
            return unknown;
        }
        if let Some(wrong) = wrong(running) {
            return wrong;
        }
        // It had the commit, or a later one, and left it again: no quorum goes over that.
        if let (Some(attempt), Some(needed)) = (&site.attempt, needed)
            && attempt.state == "reverted"
            && running.bundle < needed.number
            && attempt.bundle >= needed.number
        {
            let text: String = attempt.sentence().chars().take(300).collect();
            let text = format!("runs bundle {} again: {text}", running.bundle);
            return (SiteStatus::Failed, text);
        }
        if let Some(known) = known(facts, running).filter(|known| known.index != running.index) {
            let other = format!(
                "runs a bundle {} of other content than this hub verified (expected {}, found {})",
                running.bundle, known.index, running.index
            );
            return (SiteStatus::OtherContent, other);
        }
    }
    if let Some(revoked) = site.running.as_ref().and_then(|it| taken_back(facts, it)) {
        return revoked;
    }
    if question.edition >= 3 && newest.is_future_dated() {
        return (SiteStatus::FutureDated, newest.ahead_sentence());
    }
    if let Some(stale) = stale(question, newest.received_ms) {
        return stale;
    }
    let Some(running) = &site.running else {
        return (
            SiteStatus::NoState,
            "has not reported yet what it runs".to_owned(),
        );
    };
    if let Some(void) = before_restore(facts, running) {
        return void;
    }
    if let Some((first, last)) = site.missing.iter().find(|(_, last)| *last > running.report) {
        let text = format!(
            "has reports {first} to {last} missing, which may report a failure; the next export or \
             connection brings them"
        );
        return (SiteStatus::Gap, text);
    }
    let Some(needed) = needed else {
        let text = format!(
            "is waited for, but this hub knows no bundle of cluster type `{}` with base {} for it \
             (import the bundle)",
            site.cluster_type,
            short(&question.commit)
        );
        return (SiteStatus::NotDesired, text);
    };
    if running.bundle < needed.number {
        return (SiteStatus::Behind, behind(site, running, needed));
    }
    if known(facts, running).is_none() {
        let text = format!(
            "runs bundle {}, which this hub does not know",
            running.bundle
        );
        return (SiteStatus::NotDesired, text);
    }
    if running.state != "active" {
        let text = format!("is {} with bundle {}", running.state, running.bundle);
        return (SiteStatus::InProgress, text);
    }
    if let Some(problem) = unconfirmed(facts, &site.site, running) {
        return problem;
    }
    if running.webhook.is_empty() {
        return (
            SiteStatus::Confirmed,
            format!("runs bundle {} and all is as desired", running.bundle),
        );
    }
    by_webhook(question, running)
}

/// A site whose newest report is too old, or came by a clock that was ahead.
fn stale(question: &GateQuestion, received_ms: i64) -> Option<(SiteStatus, String)> {
    let age_ms = question.now_ms.saturating_sub(received_ms);
    if age_ms < -CLOCK_SLACK_MS {
        let text = "last reported in the future: check the hub's clock".to_owned();
        return Some((SiteStatus::Stale, text));
    }
    let most_ms = question.max_age_ms();
    (age_ms > most_ms).then(|| {
        let (age, most) = (time::span(age_ms), time::span(most_ms));
        let text = format!("last reported {age} ago, at most {most} are allowed");
        (SiteStatus::Stale, text)
    })
}

/// A site that the hub knows by webhook alone: its reconciler states all that is known, and nobody looked.
fn by_webhook(question: &GateQuestion, running: &Running) -> (SiteStatus, String) {
    let shows = format!(
        "shows bundle {} by webhook of {} alone, and all is as desired",
        running.bundle, running.webhook
    );
    if question.rules.webhook_evidence {
        return (SiteStatus::Confirmed, shows);
    }
    let text = format!(
        "{shows}; that counts only where the promotion policy has `webhookEvidence: counts`; an agent with `observe` on that cluster \
         confirms without it"
    );
    (SiteStatus::WebhookOnly, text)
}

/// Why a report does not count after a restore: it came before, or was made before the backup.
fn before_restore(facts: &Facts<'_>, running: &Running) -> Option<(SiteStatus, String)> {
    let restored = facts.restored?;
    if restored.counts(running.received_ms, running.made_ms) {
        return None;
    }
    let text = if running.received_ms <= restored.at_ms {
        format!(
            "has not reported what it runs since this hub was restored at {}; its next report counts",
            time::rfc3339(restored.at_ms)
        )
    } else {
        format!(
            "reported what it runs at {} by its own time, before the backup of {} that this hub was restored from; a report \
             that it makes now counts, where its clock is right",
            time::rfc3339(running.made_ms),
            time::rfc3339(restored.backup_ms)
        )
    };
    Some((SiteStatus::BeforeRestore, text))
}

/// Why a site confirms nothing of which the cluster shows no commit that a bundle is made from.
fn without_bundle(edition: u32, running: &Running) -> Option<(SiteStatus, String)> {
    if running.bundle > 0 {
        return None;
    }
    // What failed closes whatever is not known besides.
    if edition >= 5
        && running.state != "failed"
        && let Some(wrong) = wrong(running)
    {
        return Some(wrong);
    }
    let colon = if running.message.is_empty() { "" } else { ": " };
    let message: String = running.message.chars().take(300).collect();
    Some(match running.state.as_str() {
        "active" => {
            let text = format!(
                "follows the platform repository directly at base {}, from which this hub knows no bundle for it \
                 (import the bundle)",
                short(&running.base_commit)
            );
            (SiteStatus::NotDesired, text)
        }
        "failed" => {
            let text =
                format!("follows the platform repository directly and failed{colon}{message}");
            (SiteStatus::Failed, text)
        }
        state => {
            let text = format!(
                "follows the platform repository directly and is `{state}`{colon}{message}"
            );
            (SiteStatus::InProgress, text)
        }
    })
}

/// What the site itself says is wrong.
fn wrong(running: &Running) -> Option<(SiteStatus, String)> {
    let said = |message: &str| {
        let text: String = message.chars().take(200).collect();
        if text.is_empty() {
            text
        } else {
            format!(": {text}")
        }
    };
    if matches!(running.state.as_str(), "failed" | "reverted") {
        let text = format!(
            "{} with bundle {}{}",
            running.state,
            running.bundle,
            said(&running.message)
        );
        return Some((SiteStatus::Failed, text));
    }
    let with = |status: &str| running.assignments.iter().find(|(_, a)| a.status == status);
    if let Some((name, assignment)) = with("failed") {
        let text = format!(
            "has assignment `{name}` failed{}",
            said(&assignment.message)
        );
        return Some((SiteStatus::Failed, text));
    }
    with("drifted").map(|(name, assignment)| {
        let text = format!(
            "has assignment `{name}` drifted{}",
            said(&assignment.message)
        );
        (SiteStatus::Drifted, text)
    })
}

fn unconfirmed(facts: &Facts<'_>, site: &str, running: &Running) -> Option<(SiteStatus, String)> {
    if let Some((name, other)) = running
        .assignments
        .iter()
        .find(|(_, a)| a.status != "compliant")
    {
        return Some((
            SiteStatus::InProgress,
            format!("has assignment `{name}` {}", other.status),
        ));
    }
    let wanted = facts.wanted.get(&(running.role.clone(), running.bundle))?;
    for assignment in wanted.iter().filter(|one| one.is_for(site)) {
        let (name, version) = (&assignment.assignment, assignment.config_for(site));
        match running.assignments.get(name) {
            None => return Some((SiteStatus::Unconfirmed, format!("does not report `{name}`"))),
            // A cluster that follows the repository directly shows the commit, and no version of a config.
            Some(actual) if actual.config_version.is_empty() => {}
            Some(actual) if actual.config_version != version => {
                let (want, have) = (short(version), short(&actual.config_version));
                let text = format!("runs `{name}` with config {have} instead of {want}");
                return Some((SiteStatus::Unconfirmed, text));
            }
            Some(_) => {}
        }
    }
    None
}

fn behind(site: &SiteState, running: &Running, needed: &DesiredBundle) -> String {
    let text = format!(
        "runs bundle {}, {} is needed",
        running.bundle, needed.number
    );
    match &site.attempt {
        Some(attempt) if attempt.bundle >= needed.number => {
            let shown: String = attempt.sentence().chars().take(300).collect();
            format!("{text} ({shown})")
        }
        _ => text,
    }
}

fn known<'a>(facts: &Facts<'a>, running: &Running) -> Option<&'a DesiredBundle> {
    facts
        .bundles
        .iter()
        .find(|b| b.role == running.role && b.number == running.bundle)
}

fn is_for(bundle: &DesiredBundle, site: &SiteState) -> bool {
    bundle.recipients.is_empty() || bundle.recipients.contains(&site.site)
}
