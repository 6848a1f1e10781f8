//! What came of an environment of which something is broken: for whoever reports it, a person or a service.
//!
//! What comes in: a rendered platform, and what became of its broken assignments. What goes out: every finding about them, once, and how
//! much was written. It reads and writes nothing.

use outhaul_control::Diagnostics;
use outhaul_load::pipeline::Platform;
use outhaul_record::isolation::{self, Isolation, Written};

/// What is wrong with the broken assignments of a run, as people read it.
pub fn findings(platform: &Platform, isolation: &Isolation<()>) -> Diagnostics {
    let mut findings = platform.broken_of(isolation.ids());
    findings.append(isolation.findings.clone());
    findings.sort();
    findings
}

/// What stays as it was or is left out, and why, in lines of which each is wrong for as long as it is so.
pub fn problems(platform: &Platform, isolation: &Isolation<()>) -> Vec<String> {
    let mut problems = isolation.lines();
    if !isolation.is_empty() {
        let findings = isolation::one_line_each(&findings(platform, isolation));
        problems.extend(findings.lines().map(str::to_owned));
    }
    problems
}

/// How much of `platform` was written. `reused` sound assignments were not rendered again; with `is_stalled` streams wait for something.
pub fn written(
    platform: &Platform,
    isolation: &Isolation<()>,
    reused: usize,
    is_stalled: bool,
) -> Written {
    let rendered = platform.rendering.assignments();
    isolation.written(rendered, reused, (platform.is_whole(), is_stalled))
}
