//! The objects of a package's charts, compared with the cluster: Zarf itself looks for no drift.
//!
//! What comes in: a deployed package. What goes out: a verdict, with a step for each object that has something to say. The manifests are
//! those that Helm recorded; each is asked of the API server as a dry run, so that nothing is changed.

use outhaul_bundle::Digest;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus};
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kubernetes::yaml::Budget;
use outhaul_kubernetes::{Cluster, Health, manifest};

use super::deployed::DeployedPackage;
use super::program::Zarf;
use crate::assignment::Desired;
use crate::kubernetes::controller::PlainManifests;
use crate::kubernetes::inspect::{self, ObjectState};
use crate::kubernetes::objects::DesiredObject;
use crate::outcome::{Stop, result, step};

/// Compares each object of each chart.
pub fn compare(
    desired: &Desired,
    package: &DeployedPackage,
    cluster: &Cluster,
    program: &Zarf,
    heartbeat: &Heartbeat,
) -> Result<AssignmentResult, Stop> {
    let (mut drifted, mut sick, mut late, mut count) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for chart in package.charts() {
        let text = program.manifests(&chart.chart_name, &chart.namespace, heartbeat)?;
        let objects = manifest::objects(&text, &chart.chart_name, &mut Budget::default());
        for mut object in objects.map_err(Stop::failed)? {
            heartbeat.beat();
            count += 1;
            let resource = inspect::resource(cluster, &object)?;
            if object.key.namespace.is_none()
                && resource.is_some_and(|resource| resource.namespaced)
            {
                object.put_into(Some(&chart.namespace));
            }
            let name = object.key.to_string();
            let wanted = DesiredObject {
                object,
                content: Digest::of(b""),
                note: String::new(),
            };
            match inspect::drift(cluster, &PlainManifests, &wanted, None)? {
                ObjectState::Drifted(why) => drifted.push(step(name, "changed", why)),
                ObjectState::AsApplied(Health::Ready, _) => {}
                ObjectState::AsApplied(Health::Waiting(why) | Health::Silent(why), _) => {
                    late.push(step(name, "skipped", why));
                }
                ObjectState::AsApplied(Health::Failed(why) | Health::Failing(why), _) => {
                    sick.push(step(name, "failed", why));
                }
            }
        }
    }
    let (status, message, steps) = if !drifted.is_empty() {
        let message = format!("{} of {count} objects are not as deployed", drifted.len());
        (ComplianceStatus::Drifted, message, drifted)
    } else if let Some(first) = sick.first() {
        let message = format!("`{}`: {}", first.name, first.message);
        (ComplianceStatus::Failed, message, sick)
    } else if let Some(first) = late.first() {
        let message = format!("not ready: `{}`: {}", first.name, first.message);
        (ComplianceStatus::InProgress, message, late)
    } else {
        let steps = vec![step(format!("{count} objects"), "ok", "")];
        (ComplianceStatus::Compliant, String::new(), steps)
    };
    Ok(result(desired, status, &message, steps))
}
