//! What a bundle of the tests' centre is to say, and the index and blobs that say it.
//!
//! What comes in: assignments with their files, and whatever else an index may hold. What goes out: a [`Draft`], which
//! `Centre::publish` makes a bundle of. Nothing is signed here.

use outhaul_bundle::digest::Digest;
use outhaul_bundle::fake::{FakeBundle, MemoryBlobs};
use outhaul_bundle::index::served::{Image, Served};
use outhaul_bundle::index::waves::Wave;
use outhaul_bundle::index::{
    AgentRelease, Assignment, DriftPolicy, Overlay, SiteValues, Stream, Waves, format_of,
};
use outhaul_bundle::{Index, Instruction, Order};
use outhaul_signer::enrol::kit_key;

use crate::contents::{Contents, noise};
use crate::site::TOKEN;

/// What a bundle is to say. Made for `dev/drone` and the folder reconciler, for every site.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The stream, of `dev`.
    pub cluster_type: String,
    /// The reconciler.
    pub kind: String,
    /// The sites that it is for; none for all.
    pub recipients: Vec<String>,
    /// The assignments.
    pub loads: Vec<Load>,
    /// What becomes of drift.
    pub drift: DriftPolicy,
    /// Each with the token of the kit that it is for.
    pub orders: Vec<(String, Order)>,
    /// Who takes it when.
    pub waves: Option<Waves>,
    /// The version of an agent for this machine, and its program.
    pub agent: Option<(&'static str, Vec<u8>)>,
    /// Images that the site serves: each by its name, with its manifest first, then its config and its layers.
    pub images: Vec<(String, Vec<Vec<u8>>)>,
    /// The base commit that it was rendered from.
    pub base: Option<&'static str>,
}

/// What one site has of its own.
pub type Own = (&'static str, Vec<(String, Vec<u8>)>);

/// One assignment to be.
#[derive(Debug, Clone, Default)]
pub struct Load {
    /// Of the assignment, and of its workload.
    pub name: String,
    /// What was rendered.
    pub files: Vec<(String, Vec<u8>)>,
    /// What the reconciler cannot download.
    pub payload: Vec<(String, Vec<u8>)>,
    /// What single sites have of their own.
    pub overlays: Vec<Own>,
    /// The sites that it is for, or all.
    pub sites: Option<Vec<&'static str>>,
    /// What sites may set.
    pub site_values: Option<SiteValues>,
    /// The reconciler that applies it in the place of the stream's.
    pub bootstrap: Option<&'static str>,
}

impl Load {
    /// An assignment without files.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// With this rendered file.
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

    fn assignment(&self, contents: &mut Contents) -> Assignment {
        let own = |(site, files): &Own, contents: &mut Contents| Overlay {
            sites: [site.parse().unwrap()].into(),
            config_version: Digest::of(site.as_bytes()),
            files: contents.files(files),
        };
        let sites = self.sites.as_ref();
        Assignment {
            name: self.name.parse().unwrap(),
            workload: self.name.clone(),
            workspace: "kaizen".to_owned(),
            policies: vec!["default".to_owned()],
            config_version: Digest::of(self.name.as_bytes()),
            files: contents.files(&self.files),
            payload: contents.files(&self.payload),
            sites: sites.map(|sites| sites.iter().map(|site| site.parse().unwrap()).collect()),
            overlays: self.overlays.iter().map(|it| own(it, contents)).collect(),
            site_values: self.site_values.clone(),
            bootstrap: self.bootstrap.map(|kind| kind.parse().unwrap()),
        }
    }

    /// With this in its payload.
    pub fn payload(mut self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.payload
            .push((path.to_owned(), content.as_ref().to_vec()));
        self
    }
}

impl Draft {
    /// A bundle of `dev/drone` with these assignments.
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
            images: Vec::new(),
            base: None,
        }
    }

    /// Rendered from this base commit.
    pub fn base(mut self, commit: &'static str) -> Self {
        self.base = Some(commit);
        self
    }

    /// An image that the site serves: its manifest, its config, its layers.
    pub fn image(mut self, name: &str, contents: Vec<Vec<u8>>) -> Self {
        self.images.push((name.to_owned(), contents));
        self
    }

    /// What someone changed on site is put back.
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

    /// Of another stream of `dev`.
    pub fn cluster_type(mut self, cluster_type: &str) -> Self {
        cluster_type.clone_into(&mut self.cluster_type);
        self
    }

    /// For any reconciler, by its name in the stream.
    pub fn reconciler(mut self, name: &str) -> Self {
        name.clone_into(&mut self.kind);
        self
    }

    /// For Ansible.
    pub fn ansible(mut self) -> Self {
        "ansible".clone_into(&mut self.kind);
        self
    }

    /// For a Kubernetes API server.
    pub fn kubernetes(mut self) -> Self {
        "kubernetes".clone_into(&mut self.kind);
        self
    }

    /// Order `number` for the site `site`, as enrolled with a kit of `Centre::kit`.
    pub fn order(self, site: &str, number: u64, what: Instruction) -> Self {
        self.order_of_kit(site, TOKEN, number, what)
    }

    /// The same for a site that was enrolled with a kit with this token.
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

    /// For this site, and no other that is not named so.
    pub fn only_for(mut self, site: &str) -> Self {
        self.recipients.push(site.to_owned());
        self
    }

    /// The index that says it as bundle `number` of a fleet, and its blobs.
    pub(crate) fn index(&self, fleet: &str, stream: Stream, number: u64) -> (Index, MemoryBlobs) {
        let mut contents = Contents::default();
        let load = |load: &Load| load.assignment(&mut contents);
        let mut assignments: Vec<_> = self.loads.iter().map(load).collect();
        assignments.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let agent = self.agent.as_ref().map(|(version, program)| AgentRelease {
            version: (*version).to_owned(),
            programs: [(
                std::env::consts::ARCH.to_owned(),
                contents.content("agent", program),
            )]
            .into(),
        });
        let order = |(token, order): &(String, Order)| {
            let key = kit_key(fleet, order.site.as_str(), token);
            Order {
                enrolment: Digest::from_hex(&key.public().id()).unwrap(),
                ..order.clone()
            }
        };
        let like = FakeBundle::new(number, &[]).unwrap().index;
        let image = |(name, all): &(String, Vec<Vec<u8>>)| {
            // Layers are compressed already.
            let all = all.iter().enumerate();
            let mut all = all.map(|(at, bytes)| match at {
                0 | 1 => contents.content("document.json", bytes),
                _ => contents.content("layer.gz", bytes),
            });
            let manifest = all.next().unwrap();
            let mut blobs: Vec<_> = all.collect();
            blobs.sort_unstable();
            Image {
                name: name.clone(),
                media_type: "application/vnd.oci.image.manifest.v1+json".to_owned(),
                manifest,
                blobs,
            }
        };
        let served = Served {
            images: self.images.iter().map(image).collect(),
            repositories: Vec::new(),
        };
        let (listed, blobs) = contents.encoded();
        let waves = self.waves.clone();
        let format = format_of(&assignments, &served, waves.as_ref(), agent.as_ref());
        let mut index = Index {
            format: format.to_owned(),
            fleet: fleet.parse().unwrap(),
            stream,
            recipients: self
                .recipients
                .iter()
                .map(|it| it.parse().unwrap())
                .collect(),
            assignments,
            orders: self.orders.iter().map(order).collect(),
            waves,
            agent,
            served,
            blobs: listed,
            ..like
        };
        if let Some(commit) = self.base {
            index.snapshot = crate::plain::snapshot(commit);
        }
        index.reconciler.kind = self.kind.parse().unwrap();
        index.reconciler.drift = self.drift;
        (index, blobs)
    }
}
