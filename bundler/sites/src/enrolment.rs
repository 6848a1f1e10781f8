//! Which kit makes a machine a site, when another one is made, and to which stream a site is moved.
//!
//! What comes in: the name of a site, a stream, and whether a person asked for another kit. What goes out: a kit with what this fleet is
//! now, the kit that counts, or a refusal with what another one would make void. The kit is written before it is on record: a kit that
//! counts always exists. Whether an environment has such a cluster type, the control plane says, which is not known here.

use std::path::Path;

use outhaul_bundle::index::Stream;
use outhaul_bundle::name::Name;
use outhaul_bundle::{Digest, Instruction, Order};
use outhaul_kit::bounds::MAX_PRIVATE_AUTHORITY_BYTES;
use outhaul_kit::format_count::format_count;
use outhaul_signer::durable;
use outhaul_signer::enrol::{self, Kit, KitStream};

use super::{SiteError, SiteRecord, Sites};

/// A kit that no file and no record has yet.
#[derive(Debug)]
pub struct NewKit {
    /// The kit.
    pub kit: Kit,
    site: Name,
    stream: Stream,
    id: Digest,
}

impl NewKit {
    /// What another kit has changed for a site, one line each.
    pub fn changes_since(&self, before: Option<&SiteRecord>) -> Vec<String> {
        let (site, stream) = (&self.site, &self.stream);
        let Some(before) = before else {
            return vec![format!(
                "warning: no site `{site}` was on record, so `--again` invalidates nothing: is the name right?"
            )];
        };
        let mut lines = vec![format!("no longer valid: {}", made_void(before))];
        if before.stream != *stream {
            lines.push(format!(
                "warning: `{site}` followed {}, and follows {}/{} from now on",
                before.stream_name(),
                stream.environment,
                stream.cluster_type
            ));
        }
        if before.revoked_by().is_some() || !before.earlier.is_empty() {
            lines.push(format!(
            "the machine that was `{site}` before stays revoked: the bundles of its stream still carry that order"
        ));
        }
        lines
    }
}

impl Sites<'_> {
    /// The stream of these names, as this fleet signs it.
    ///
    /// # Errors
    /// [`SiteError::Internal`].
    pub fn stream(&self, environment: &Name, cluster_type: &Name) -> Result<Stream, SiteError> {
        let role = self.fleet.role(environment.as_str(), cluster_type.as_str());
        Ok(Stream {
            role: role.parse().map_err(SiteError::internal)?,
            environment: environment.clone(),
            cluster_type: cluster_type.clone(),
        })
    }

    /// Refuses another kit for a site that has one, unless it is asked for by `again`.
    ///
    /// # Errors
    /// [`SiteError::Enrolled`], or a record that cannot be read.
    pub fn refuse_second_kit(&self, site: &Name, again: bool) -> Result<(), SiteError> {
        match self.find(site.as_str())?.filter(|_| !again) {
            None => Ok(()),
            Some(record) => Err(SiteError::Enrolled {
                site: site.to_string(),
                stream: record.stream_name(),
                void: made_void(&record),
            }),
        }
    }

    /// A new kit for `site`, with a token that no other has. `hub_ca` is PEM, empty for the authorities of the system.
    ///
    /// # Errors
    /// [`SiteError`]: as [`Sites::refuse_second_kit`], and when the fleet cannot be read.
    pub fn new_kit(
        &self,
        site: &Name,
        stream: Stream,
        hub_ca: String,
        again: bool,
    ) -> Result<NewKit, SiteError> {
        self.refuse_second_kit(site, again)?;
        self.refuse_many_revoked(site)?;
        let fleet = self.fleet;
        let mut earlier_roots = fleet.root_chain()?;
        let root = earlier_roots.pop().unwrap_or_default();
        let kit = Kit {
            format: enrol::FORMAT.to_owned(),
            fleet: fleet.id().to_owned(),
            site: site.to_string(),
            stream: KitStream {
                role: stream.role.to_string(),
                environment: stream.environment.to_string(),
                cluster_type: stream.cluster_type.to_string(),
            },
            root,
            earlier_roots,
            hub_url: fleet.hub_url().to_owned(),
            hub_key: fleet.hub_key().to_owned(),
            hub_ca,
            token: enrol::new_token().map_err(SiteError::Key)?,
        };
        let id = Digest::from_hex(&kit.id()).map_err(SiteError::internal)?;
        let site = site.clone();
        Ok(NewKit {
            kit,
            site,
            stream,
            id,
        })
    }

    /// Has a new kit written by `write`, and puts it on record: from then on it alone counts.
    ///
    /// # Errors
    /// That of `write`, after which nothing is on record; or [`SiteError`].
    pub fn enrol<E: From<SiteError>>(
        &self,
        new: &NewKit,
        write: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        write(&new.kit.to_bytes())?;
        self.enrolled(&new.site, new.stream.clone(), new.id)?;
        Ok(())
    }

    /// Whether `kit` is the one that counts for `site` and makes it follow `stream`.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub fn counts(&self, kit: &Kit, site: &Name, stream: &Stream) -> Result<bool, SiteError> {
        let record = self.find(site.as_str())?;
        Ok(record.is_some_and(|record| {
            record.enrolment.hex() == kit.id()
                && kit.site == site.as_str()
                && kit.stream.environment == stream.environment.as_str()
                && kit.stream.cluster_type == stream.cluster_type.as_str()
        }))
    }

    /// The stream that `to` (`ENVIRONMENT/CLUSTER_TYPE`) names, for a site that follows another one.
    ///
    /// # Errors
    /// [`SiteError::NoStream`], [`SiteError::Follows`], or a site that has no record.
    pub fn destination(&self, site: &str, to: &str) -> Result<Stream, SiteError> {
        let wrong = || SiteError::NoStream {
            given: to.to_owned(),
        };
        let (environment, cluster_type) = to.split_once('/').ok_or_else(wrong)?;
        let name = |text: &str| text.parse::<Name>().map_err(|_| wrong());
        let stream = Stream {
            role: name(&self.fleet.role(environment, cluster_type))?,
            environment: name(environment)?,
            cluster_type: name(cluster_type)?,
        };
        refuse_same(&self.one(site)?, &stream)?;
        Ok(stream)
    }
}

/// The certificates in a file that a person named, for the kit of a site.
///
/// # Errors
/// [`SiteError::NoCertificate`], or a file that cannot be read.
pub fn authority(path: &Path) -> Result<String, SiteError> {
    let bytes = durable::read(path, MAX_PRIVATE_AUTHORITY_BYTES).map_err(SiteError::Named)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if text.contains("-----BEGIN CERTIFICATE-----") {
        return Ok(text);
    }
    let path = path.to_owned();
    Err(SiteError::NoCertificate { path })
}

/// Refuses to move a site to the stream that it follows.
///
/// # Errors
/// [`SiteError::Follows`]
pub(super) fn refuse_same(site: &SiteRecord, to: &Stream) -> Result<(), SiteError> {
    if site.stream != *to {
        return Ok(());
    }
    Err(SiteError::Follows {
        site: site.site.to_string(),
        stream: site.stream_name(),
    })
}

/// What another kit of this site would make void.
fn made_void(site: &SiteRecord) -> String {
    let mut void = vec![format!(
        "its previous kit ({}), on whatever stick that is",
        site.enrolment.short()
    )];
    if !site.public_keys.is_empty() {
        void.push("the key that was approved for it".to_owned());
    }
    let revokes = |order: &&Order| order.what == Instruction::Revoke;
    let void_orders = site.orders.iter().filter(|order| !revokes(order)).count();
    if void_orders > 0 {
        void.push(format_count(void_orders, "order to it", "orders to it"));
    }
    void.join("; ")
}

#[cfg(test)]
mod tests {
    use outhaul_test_kit::Centre;

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// Enrols `press-7`; the kit that was written.
    fn enrol(sites: &Sites<'_>, again: bool) -> Result<Kit, SiteError> {
        let stream = sites.stream(&name("dev"), &name("press"))?;
        let new = sites.new_kit(&name("press-7"), stream, String::new(), again)?;
        let mut written = Vec::new();
        sites.enrol::<SiteError>(&new, |bytes| {
            written.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(Kit::from_bytes(&written).unwrap())
    }

    #[test]
    fn a_site_has_one_kit_that_counts_and_another_only_when_it_is_asked_for() {
        let centre = Centre::new();
        let sites = Sites::of(&centre.fleet);
        let stream = sites.stream(&name("dev"), &name("press")).unwrap();
        let counts = |kit: &Kit, site: &str, stream: &Stream| {
            sites.counts(kit, &name(site), stream).unwrap()
        };
        let first = enrol(&sites, false).unwrap();
        assert!(counts(&first, "press-7", &stream));
        assert!(!counts(&first, "press-8", &stream));
        let other = sites.stream(&name("dev"), &name("lathe")).unwrap();
        assert!(!counts(&first, "press-7", &other));
        let refused = enrol(&sites, false).unwrap_err();
        assert!(matches!(refused, SiteError::Enrolled { .. }), "{refused}");
        assert!(counts(&first, "press-7", &stream), "it still does");
        let second = enrol(&sites, true).unwrap();
        assert!(counts(&second, "press-7", &stream));
        assert!(!counts(&first, "press-7", &stream), "it is void");
    }

    #[test]
    fn a_refusal_names_all_that_another_kit_would_make_void() {
        let centre = Centre::new();
        let sites = Sites::of(&centre.fleet);
        enrol(&sites, false).unwrap();
        let before = enrol(&sites, false).unwrap_err().to_string();
        assert!(!before.contains("order"), "{before}");
        let to = sites.stream(&name("stage"), &name("press")).unwrap();
        sites.relocate("press-7", to).unwrap();
        // That one goes on to travel.
        sites.revoke("press-7").unwrap();
        let refused = enrol(&sites, false).unwrap_err().to_string();
        assert!(refused.contains("for stage/press"), "{refused}");
        assert!(refused.ends_with("; 1 order to it"), "{refused}");
    }

    #[test]
    fn a_kit_that_could_not_be_written_is_not_on_record() {
        let centre = Centre::new();
        let sites = Sites::of(&centre.fleet);
        let stream = sites.stream(&name("dev"), &name("press")).unwrap();
        let new = sites
            .new_kit(&name("press-7"), stream, String::new(), false)
            .unwrap();
        let full = SiteError::Internal {
            problem: "no space left".to_owned(),
        };
        sites.enrol(&new, |_| Err(full)).unwrap_err();
        assert!(sites.find("press-7").unwrap().is_none());
    }

    #[test]
    fn a_site_is_moved_to_another_stream_only() {
        let centre = Centre::new();
        let sites = Sites::of(&centre.fleet);
        enrol(&sites, false).unwrap();
        let refused = |to: &str| sites.destination("press-7", to).unwrap_err();
        for to in ["dev", "", "dev/", "/press", "dev/press/7", "dev/a b"] {
            assert!(matches!(refused(to), SiteError::NoStream { .. }), "{to}");
        }
        assert!(matches!(refused("dev/press"), SiteError::Follows { .. }));
        let here = sites.one("press-7").unwrap();
        let again = sites.relocate("press-7", here.stream.clone()).unwrap_err();
        assert!(matches!(again, SiteError::Follows { .. }), "{again}");
        assert_eq!(sites.one("press-7").unwrap(), here);
        let to = sites.destination("press-7", "dev/lathe").unwrap();
        assert_eq!(to.cluster_type, "lathe".parse().unwrap());
    }
}
