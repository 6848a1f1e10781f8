//! What a bundle of the tests' centre is to say, before it is made and signed.
//!
//! What comes in: assignments with their files, and whatever else an index may hold. What goes out: a [`Draft`], which
//! `Centre::publish` makes a bundle of.

use outhaul_bundle::digest::Digest;
use outhaul_bundle::index::waves::Wave;
use outhaul_bundle::index::{DriftPolicy, SiteValues, Waves};
use outhaul_bundle::{Instruction, Order};

use crate::centre::{TOKEN, noise};

/// What a bundle is to say. Made for `dev/drone` and the folder reconciler, for every site.
#[derive(Debug, Clone)]
pub struct Draft {
    pub cluster_type: String,
    pub kind: String,
    pub recipients: Vec<String>,
    pub loads: Vec<Load>,
    pub drift: DriftPolicy,
    /// Each with the token of the kit that it is for.
    pub orders: Vec<(String, Order)>,
    pub waves: Option<Waves>,
    /// The version of an agent for this machine, and its program.
    pub agent: Option<(&'static str, Vec<u8>)>,
}

/// What one site has of its own.
pub type Own = (&'static str, Vec<(String, Vec<u8>)>);

/// One assignment to be.
#[derive(Debug, Clone, Default)]
pub struct Load {
    pub name: String,
    pub files: Vec<(String, Vec<u8>)>,
    pub payload: Vec<(String, Vec<u8>)>,
    pub overlays: Vec<Own>,
    pub sites: Option<Vec<&'static str>>,
    pub site_values: Option<SiteValues>,
    pub bootstrap: Option<&'static str>,
}

impl Load {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn file(mut self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.files
            .push((path.to_owned(), content.as_ref().to_vec()));
        self
    }

    /// What one site gets in the place of a file, or beside the others.
    pub fn own(mut self, site: &'static str, path: &str, content: &str) -> Self {
        let files = vec![(path.to_owned(), content.as_bytes().to_vec())];
        self.overlays.push((site, files));
        self
    }

    /// Brings the stream's reconciler, and is applied by this one.
    pub fn bootstrap(mut self, kind: &'static str) -> Self {
        self.bootstrap = Some(kind);
        self
    }

    /// For these sites alone.
    pub fn only(mut self, sites: &[&'static str]) -> Self {
        self.sites = Some(sites.to_vec());
        self
    }

    /// What the site may set, with the centre's values in the file.
    pub fn open(self, values: SiteValues, centre: &[(&str, &str)]) -> Self {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let text = values
            .file("dev-drone", &centre.iter().map(owned).collect())
            .unwrap();
        let mut load = self.file(values.form.file(), text);
        load.site_values = Some(values);
        load
    }

    pub fn payload(mut self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.payload
            .push((path.to_owned(), content.as_ref().to_vec()));
        self
    }
}

impl Draft {
    pub fn new(loads: impl IntoIterator<Item = Load>) -> Self {
        Self {
            cluster_type: "drone".to_owned(),
            kind: "folder".to_owned(),
            recipients: Vec::new(),
            loads: loads.into_iter().collect(),
            orders: Vec::new(),
            drift: DriftPolicy::Report,
            waves: None,
            agent: None,
        }
    }

    /// What somebody changed on site is put back.
    pub fn correct_drift(mut self) -> Self {
        self.drift = DriftPolicy::Correct;
        self
    }

    /// `hello` with a manifest, a small payload and one too large for a pack.
    pub fn hello(greeting: &str) -> Self {
        Self::new([Load::new("hello")
            .file("manifest.yaml", format!("greeting: {greeting}\n"))
            .payload("notes.txt", "read me\n")
            .payload("image.tar.gz", noise(100_000))])
    }

    pub fn cluster_type(mut self, cluster_type: &str) -> Self {
        cluster_type.clone_into(&mut self.cluster_type);
        self
    }

    /// For any reconciler, by its name in the stream.
    pub fn reconciler(mut self, name: &str) -> Self {
        name.clone_into(&mut self.kind);
        self
    }

    pub fn ansible(mut self) -> Self {
        "ansible".clone_into(&mut self.kind);
        self
    }

    pub fn kubernetes(mut self) -> Self {
        "kubernetes".clone_into(&mut self.kind);
        self
    }

    /// Order `number` for the site `site`, as enrolled with a kit of [`Centre::kit`].
    pub fn order(self, site: &str, number: u64, what: Instruction) -> Self {
        self.order_of_kit(site, TOKEN, number, what)
    }

    pub fn order_of_kit(mut self, site: &str, token: &str, number: u64, what: Instruction) -> Self {
        let order = Order {
            site: site.parse().unwrap(),
            number,
            // The centre that makes the bundle knows the kit's id.
            enrolment: Digest::of(b""),
            what,
        };
        self.orders.push((token.to_owned(), order));
        self
    }

    /// Brings an agent for this machine.
    pub fn agent(mut self, version: &'static str, program: Vec<u8>) -> Self {
        self.agent = Some((version, program));
        self
    }

    /// Of 100 sites so many, and hours until the next wave.
    pub fn waves(mut self, shares: &[(u8, u32)]) -> Self {
        let wave = |(percent, hours): &(u8, u32)| Wave {
            percent: *percent,
            hours: *hours,
        };
        let waves = shares.iter().map(wave).collect();
        self.waves = Some(Waves {
            seed: "dev/drone".to_owned(),
            waves,
        });
        self
    }

    pub fn only_for(mut self, site: &str) -> Self {
        self.recipients.push(site.to_owned());
        self
    }
}
