//! The objects of a package's charts, compared with the cluster: Zarf itself looks for no drift.
//!
//! What comes in: a deployed package. What goes out: a verdict, with a step for each object that has something to say. The manifests are
//! those that Helm recorded; each is asked of the API server as a dry run, so that nothing is changed.

use outhaul_bundle::Digest;
use outhaul_bundle::report::AssignmentResult;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kubernetes::yaml::Budget;
use outhaul_kubernetes::{Cluster, manifest};

use super::deployed::DeployedPackage;
use super::program::Zarf;
use crate::assignment::Desired;
use crate::kubernetes::controller::PlainManifests;
use crate::kubernetes::inspect;
use crate::kubernetes::objects::DesiredObject;
use crate::kubernetes::observe::ObjectsSeen;
use crate::outcome::{Stop, result};

/// Compares each object of each chart.
pub fn compare(
    desired: &Desired,
    package: &DeployedPackage,
    cluster: &Cluster,
    program: &Zarf,
    heartbeat: &Heartbeat,
) -> Result<AssignmentResult, Stop> {
    let mut seen = ObjectsSeen::default();
    for chart in package.charts() {
        let text = program.manifests(&chart.chart_name, &chart.namespace, heartbeat)?;
        let objects = manifest::objects(&text, &chart.chart_name, &mut Budget::default());
        for mut object in objects.map_err(Stop::failed)? {
            heartbeat.beat();
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
            seen.add(
                name,
                inspect::drift(cluster, &PlainManifests, &wanted, None, false)?,
            );
        }
    }
    let (status, message, steps) = seen.verdict("deployed");
    Ok(result(desired, status, &message, steps))
}
