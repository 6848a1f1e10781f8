//! How a cluster type's platform travels, and what a promotion needs.
//!
//! What comes in: typed fields of `DeliveryPolicy` and `PromotionPolicy`. What goes out: plain data,
//! every written field with its place. Which policies apply to a cluster type, and whether two of them
//! contradict each other, is decided in `delivery`, not here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use outhaul_bundle::hub_api::GateRules;
use outhaul_bundle::index::waves::Wave;

use super::super::diagnostic::Location;
use super::super::selector::Selector;
use super::Spanned;

/// After how many days a bundle may no longer be installed.
pub const EXPIRES_DAYS: RangeInclusive<u32> = 1..=3650;
/// After how many where nobody says so.
pub const EXPIRES_DAYS_DEFAULT: u32 = 180;
/// The share of assignments that one run may remove, in percent, where no policy states it.
pub const MAX_REMOVAL_PERCENT_DEFAULT: u8 = 30;

/// How the platform of some cluster types travels. What is absent says nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryPolicy {
    /// Its name.
    pub name: String,
    /// Which cluster types it means.
    pub cluster_types: Selector,
    /// By which transport.
    pub delivery: Option<Transport>,
    /// What becomes of images.
    pub images: Option<Images>,
    /// For which platforms images travel, such as `linux/arm64`; without it for all.
    pub platforms: Option<BTreeSet<String>>,
    /// How the images of charts are found.
    pub charts: Option<Charts>,
    /// Fields of custom resources that hold images.
    pub image_fields: Option<Vec<super::ImageField>>,
    /// Days until a bundle may no longer be installed, within [`EXPIRES_DAYS`].
    pub expires_days: Option<u32>,
    /// Whether bundles are encrypted.
    pub encryption: Option<Encryption>,
    /// The most bytes that one bundle may have.
    pub size_budget: Option<u64>,
    /// The largest share of assignments that one change may remove, 0 to 100.
    pub max_removal_percent: Option<u8>,
    /// What sites do about files and tasks that were changed by hand.
    pub drift: Option<Drift>,
    /// The scanner that may forbid a bundle, by its name.
    pub scan: Option<String>,
    /// Which images must be signed.
    pub image_signatures: Option<super::ImageSignatures>,
    /// Documents of `OpenVEX` that travel with each bundle, by their names.
    pub vex: Option<BTreeMap<String, String>>,
    /// Which sites take a bundle first.
    pub waves: Option<Vec<Wave>>,
    /// What distributes the sites over the waves; without it, the stream's name.
    pub wave_seed: Option<String>,
    /// What is applied before everything else, so that a reconciler is there.
    pub bootstrap: Option<Bootstrap>,
    /// Where each field is written, by its name.
    pub places: BTreeMap<&'static str, Location>,
    /// Where it is written.
    pub location: Location,
}

/// The deployment targets that bring a cluster its reconciler: the agent applies them itself, before all others.
#[derive(Debug, Clone)]
pub struct Bootstrap {
    /// Their full names, in the order in which they are written.
    pub targets: Vec<Spanned<String>>,
    /// The template of their manifests, in the place of the cluster type's.
    pub reconciler: Spanned<String>,
}

impl Bootstrap {
    /// Whether the deployment target `name` is one of them.
    pub fn has(&self, name: &str) -> bool {
        self.targets.iter().any(|target| target.value == name)
    }
}

/// Two that say the same are equal, wherever they are written.
impl PartialEq for Bootstrap {
    fn eq(&self, other: &Self) -> bool {
        let targets = |one: &Self| -> BTreeSet<String> {
            one.targets
                .iter()
                .map(|target| target.value.clone())
                .collect()
        };
        self.reconciler.value == other.reconciler.value && targets(self) == targets(other)
    }
}

/// By which transport a platform travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A git repository alone; no bundle is written.
    Git,
    /// Bundles alone.
    Bundle,
    /// Both.
    Both,
}

impl Transport {
    /// Every transport.
    pub const ALL: [Self; 3] = [Self::Both, Self::Bundle, Self::Git];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Bundle => "bundle",
            Self::Both => "both",
        }
    }
}

/// What becomes of the images that a workload needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Images {
    /// They travel in the bundle.
    Carry,
    /// The site gets them itself.
    Reference,
}

impl Images {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Carry, Self::Reference];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Carry => "carry",
            Self::Reference => "reference",
        }
    }
}

/// How the images of charts are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charts {
    /// In values and templates, as far as they are written there.
    Values,
    /// In what `helm template` makes of them.
    Render,
}

impl Charts {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Values, Self::Render];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Render => "render",
        }
    }
}

/// Whether bundles are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// Never: anybody may read them.
    None,
    /// Always: a bundle without named readers is refused.
    Required,
}

impl Encryption {
    /// Both.
    pub const ALL: [Self; 2] = [Self::None, Self::Required];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Required => "required",
        }
    }
}

/// What sites do about drift: what they applied and someone changed by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drift {
    /// It is reported.
    Report,
    /// It is reported and put back.
    Correct,
}

impl Drift {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Report, Self::Correct];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Correct => "correct",
        }
    }
}

/// What the step from one environment to the next needs.
#[derive(Debug, Clone, PartialEq)]
pub struct PromotionPolicy {
    /// Its name.
    pub name: String,
    /// The environment whose sites decide.
    pub from: Spanned<String>,
    /// The environment that is moved.
    pub to: Spanned<String>,
    /// What its gate asks for.
    pub rules: GateRules,
    /// Programs that are run at the centre, by name.
    pub hooks: PromotionHooks,
    /// Where it is written.
    pub location: Location,
}

/// How long a hook may take, in minutes.
pub const HOOK_MINUTES: RangeInclusive<u32> = 1..=120;
/// How long it may take where the policy states nothing.
pub const HOOK_MINUTES_DEFAULT: u32 = 10;

/// The hooks of a step. A control plane names them, never the programs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromotionHooks {
    /// Each must succeed before the environment is moved.
    pub before: Vec<PromotionHook>,
    /// Run after it was moved.
    pub after: Vec<PromotionHook>,
}

/// One hook.
#[derive(Debug, Clone, PartialEq)]
pub struct PromotionHook {
    /// Its name.
    pub name: Spanned<String>,
    /// How long it may take, in minutes.
    pub minutes: u32,
}
