//! Delivery: what the delivery policies together say of one cluster type.
//!
//! What comes in: a [`ControlPlane`] and one of its cluster types. What goes out: a [`Delivery`], or both
//! places when two policies contradict each other: which of two orders to follow is not ours to guess.
//! Several policies may each say a part. It is pure; whoever produces bundles follows it.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::index::waves::{Wave, Waves};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_control::model::{
    Bootstrap, Charts, ClusterType, DeliveryPolicy, Drift, Encryption, ImageField, ImageSignatures,
    Images, Transport,
};

pub mod statements;
pub mod storage;

/// How one cluster type's platform travels. What no policy says is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delivery {
    /// By which transport.
    pub transport: Option<Sourced<Transport>>,
    /// What becomes of images.
    pub images: Option<Sourced<Images>>,
    /// For which platforms images travel; without it for all.
    pub platforms: Option<Sourced<BTreeSet<String>>>,
    /// How the images of charts are found.
    pub charts: Option<Sourced<Charts>>,
    /// Fields of custom resources that hold images.
    pub image_fields: Option<Sourced<Vec<ImageField>>>,
    /// Days until a bundle may no longer be installed.
    pub expires_days: Option<Sourced<u32>>,
    /// Whether bundles are encrypted.
    pub encryption: Option<Sourced<Encryption>>,
    /// The most bytes that one bundle may have.
    pub size_budget: Option<Sourced<u64>>,
    /// The largest share of assignments that one change may remove.
    pub max_removal_percent: Option<Sourced<u8>>,
    /// What sites do about drift.
    pub drift: Option<Sourced<Drift>>,
    /// The scanner that may forbid a bundle.
    pub scan: Option<Sourced<String>>,
    /// Which images must be signed.
    pub image_signatures: Option<Sourced<ImageSignatures>>,
    /// Documents of `OpenVEX` that travel with each bundle, by their names.
    pub vex: Option<Sourced<BTreeMap<String, String>>>,
    /// Which sites take a bundle first: shares and hours.
    pub waves: Option<Sourced<Vec<Wave>>>,
    /// What distributes the sites over the waves.
    pub wave_seed: Option<Sourced<String>>,
    /// What brings the reconciler.
    pub bootstrap: Option<Sourced<Bootstrap>>,
}

impl Delivery {
    /// In which fields of custom resources there are images.
    pub fn image_fields(&self) -> &[ImageField] {
        self.image_fields.as_ref().map_or(&[], |said| &said.value)
    }

    /// The waves of a stream, where there are any. Without a seed of its own it has the one of its name.
    pub fn waves(&self, environment: &str, cluster_type: &str) -> Option<Waves> {
        let said = self.waves.as_ref()?;
        let seed = self.wave_seed.as_ref().map(|seed| seed.value.clone());
        Some(Waves {
            seed: seed.unwrap_or_else(|| format!("{environment}/{cluster_type}")),
            waves: said.value.clone(),
        })
    }
}

/// What a policy says, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Sourced<T> {
    /// What.
    pub value: T,
    /// The policy's name.
    pub policy: String,
    /// Where.
    pub location: Location,
}

impl<T> Sourced<T> {
    /// `delivery policy `x` (file:line)`.
    pub fn by(&self) -> String {
        format!(
            "delivery policy `{}` ({})",
            self.policy,
            self.location.file_line()
        )
    }
}

/// What the policies say of `cluster_type`.
///
/// # Errors
/// A finding for every field that two policies set differently, and one where what must be encrypted is to travel by git.
pub fn of(plane: &ControlPlane, cluster_type: &ClusterType) -> Result<Delivery, Diagnostics> {
    let mut findings = Diagnostics::new();
    let applies = |policy: &&DeliveryPolicy| policy.cluster_types.matches(&cluster_type.labels);
    let policies: Vec<&DeliveryPolicy> = plane.deliveries.values().filter(applies).collect();
    let mut merge = Merge {
        policies: &policies,
        cluster_type,
        findings: &mut findings,
    };
    let delivery = Delivery {
        transport: merge.field("delivery", |policy| policy.delivery),
        images: merge.field("images", |policy| policy.images),
        platforms: merge.field("platforms", |policy| policy.platforms.clone()),
        charts: merge.field("charts", |policy| policy.charts),
        image_fields: merge.field("imageFields", |policy| policy.image_fields.clone()),
        expires_days: merge.field("expiresDays", |policy| policy.expires_days),
        encryption: merge.field("encryption", |policy| policy.encryption),
        size_budget: merge.field("sizeBudget", |policy| policy.size_budget),
        max_removal_percent: merge.field("maxRemovalPercent", |policy| policy.max_removal_percent),
        drift: merge.field("drift", |policy| policy.drift),
        scan: merge.field("scan", |policy| policy.scan.clone()),
        image_signatures: merge.field("imageSignatures", |policy| policy.image_signatures.clone()),
        vex: merge.field("vex", |policy| policy.vex.clone()),
        waves: merge.field("waves", |policy| policy.waves.clone()),
        wave_seed: merge.field("waveSeed", |policy| policy.wave_seed.clone()),
        bootstrap: merge.field("bootstrap", |policy| policy.bootstrap.clone()),
    };
    if delivery.transport.is_some() {
        findings.extend(clear_in_git(&delivery, &cluster_type.name));
    }
    if findings.is_empty() {
        Ok(delivery)
    } else {
        Err(findings)
    }
}

/// What must be encrypted and is said to travel by git, where nothing encrypts it: neither a bundle nor a branch follows both.
/// Where no policy states a transport, that is so once a branch is published.
pub fn clear_in_git(delivery: &Delivery, cluster_type: &str) -> Option<Diagnostic> {
    let required = delivery.encryption.as_ref();
    let required = required.filter(|said| said.value == Encryption::Required)?;
    let clear =
        format!("for cluster type `{cluster_type}`: its files would go to git in the clear");
    let finding = match &delivery.transport {
        Some(said) if said.value == Transport::Bundle => return None,
        Some(said) => Diagnostic::error(
            "contradiction",
            format!(
                "`encryption: required` and `delivery: {}` contradict each other {clear}",
                said.value.as_str()
            ),
        )
        .related(&said.location, "and this is git, too"),
        None => Diagnostic::error(
            "contradiction",
            format!("`encryption: required` and publishing a branch contradict each other {clear}"),
        ),
    };
    let finding = finding.at(&required.location);
    Some(finding.label("bundles alone are encrypted").help(
        "write `delivery: bundle`; where everyone who reads the repository may read the files, take `encryption: required` out",
    ))
}

/// Every contradiction of a control plane, once for each pair of places.
pub fn contradictions(plane: &ControlPlane) -> Diagnostics {
    let mut all = Diagnostics::new();
    for cluster_type in plane.cluster_types.values() {
        if let Err(findings) = of(plane, cluster_type) {
            for finding in findings {
                let same = |other: &Diagnostic| {
                    (&other.location, &other.related) == (&finding.location, &finding.related)
                };
                if !all.iter().any(same) {
                    all.push(finding);
                }
            }
        }
    }
    all
}

/// Policies that say something of images, for cluster types whose images do not travel, or of a scanner or of statements, for those of
/// which no bundle is made: nothing comes of it there.
pub fn without_effect(plane: &ControlPlane) -> Diagnostics {
    let mut all = Diagnostics::new();
    for cluster_type in plane.cluster_types.values() {
        let Ok(delivery) = of(plane, cluster_type) else {
            continue;
        };
        let carries = delivery
            .images
            .is_some_and(|images| images.value == Images::Carry);
        // Of what no bundle is made, nothing is expected to travel.
        let is_git = delivery
            .transport
            .is_some_and(|one| one.value == Transport::Git);
        let without_bundles = [
            (
                "scan",
                delivery.scan.as_ref().map(|said| &said.location),
                "nothing is scanned",
                "write `delivery: bundle` or `both`; what travels by git has to be scanned where it is taken from the branch",
            ),
            (
                "vex",
                delivery.vex.as_ref().map(|said| &said.location),
                "no statement travels",
                "write `delivery: bundle` or `both`, or import the statements into the hub (`outhaul-hub advisories import`)",
            ),
        ];
        for (field, at, what, help) in without_bundles {
            if let Some(at) = at.filter(|_| is_git) {
                let message = format!(
                    "`{field}` has no effect for cluster type `{}`, of which no bundles are made: {what}",
                    cluster_type.name
                );
                let finding = Diagnostic::warning("no-effect", message).at(at);
                all.push(finding.help(help));
            }
        }
        if carries || is_git {
            continue;
        }
        let mut add = |field: &str, more: &str, at: &Location, help: &str| {
            let message = format!(
                "`{field}` has no effect for cluster type `{}`, whose images do not travel{more}",
                cluster_type.name
            );
            let finding = Diagnostic::warning("no-effect", message).at(at);
            all.push(finding.help(help));
        };
        if let Some(signatures) = delivery.image_signatures {
            let help = "write `images: carry`, or have the clusters verify images themselves";
            let more = ": what they are is not verified";
            add("imageSignatures", more, &signatures.location, help);
        }
        if let Some(platforms) = delivery.platforms {
            add(
                "platforms",
                "",
                &platforms.location,
                "write `images: carry`",
            );
        }
    }
    all
}

struct Merge<'a> {
    policies: &'a [&'a DeliveryPolicy],
    cluster_type: &'a ClusterType,
    findings: &'a mut Diagnostics,
}

impl Merge<'_> {
    fn field<T: PartialEq>(
        &mut self,
        name: &'static str,
        read: impl Fn(&DeliveryPolicy) -> Option<T>,
    ) -> Option<Sourced<T>> {
        let mut first: Option<Sourced<T>> = None;
        for policy in self.policies {
            let Some(value) = read(policy) else { continue };
            let location = policy.places.get(name).unwrap_or(&policy.location);
            match &first {
                None => {
                    first = Some(Sourced {
                        value,
                        policy: policy.name.clone(),
                        location: location.clone(),
                    });
                }
                Some(said) if said.value != value => {
                    let message = format!(
                        "delivery policies `{}` and `{}` contradict each other for cluster type `{}`: `{name}`",
                        said.policy, policy.name, self.cluster_type.name
                    );
                    self.findings.push(
                        Diagnostic::error("contradiction", message)
                            .at(location)
                            .label("this")
                            .related(&said.location, "and this")
                            .help("make them equal, or narrow one `clusterTypeSelector` so that they do not meet"),
                    );
                }
                Some(_) => {}
            }
        }
        first
    }
}

#[cfg(test)]
mod tests;
