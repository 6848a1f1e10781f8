//! `outhaul-hub site webhook`: a site on which no agent runs reports by the webhooks of its reconciler.
//!
//! What comes in: the site, its stream, and the objects that apply the platform repository there. What goes out: the registration on
//! record, and its secret, once. The secret is derived from the hub's key and kept nowhere.

use std::path::PathBuf;

use outhaul_bundle::hub_api::path;
use outhaul_bundle::index::Stream;
use outhaul_bundle::name::Name;
use outhaul_bundle::report::WebhookSender;
use outhaul_webhooks::{FollowedObject, RegisterError, Registrar, WebhookSettings, register};
use serde_json::json;

use super::token::note;
use super::{Common, Output, print};
use crate::acting::usage;
use crate::error::HubError;
use crate::time;

/// Who registers, on record.
const BY: &str = "command line";

/// Register a site that has no agent: its reconciler reports by webhook
///
/// The hub makes the site's reports of the events of Flux or Argo CD. They show what the reconciler states, and nobody looked: a gate
/// counts them only where the promotion policy has `webhookEvidence: counts`. Prints the site's secret, once.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  (umask 077; outhaul-hub site webhook store-7 --sender flux --environment dev --cluster-type store \\\n     \
                  --repository https://git.example.org/platform \\\n     --record \
                  'https://git.example.org/platform/raw/commit/{commit}/.outhaul/platform.json' \\\n     --object \
                  Kustomization/flux-system/platform=store --state hub > store-7.secret)"
)]
pub(super) struct Args {
    /// The site
    site: Name,
    /// Who sends: `flux` (notification-controller) or `argocd` (notifications controller)
    #[arg(long, value_name = "NAME")]
    sender: WebhookSender,
    /// Its environment
    #[arg(long, value_name = "NAME")]
    environment: Name,
    /// Its cluster type; a bundle of it must be on record
    #[arg(long, value_name = "NAME")]
    cluster_type: Name,
    /// Address of the platform repository, as the cluster has it
    #[arg(long, value_name = "URL")]
    repository: String,
    /// Address at which the forge shows `.outhaul/platform.json` of a commit, with `{commit}` in it
    #[arg(long, value_name = "URL")]
    record: String,
    /// File with the certificate authority of that address; the system's otherwise
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// An object that applies the platform repository, with the folder that it applies: `Kustomization/NAMESPACE/NAME=PATH`,
    /// `Application/NAMESPACE/NAME=PATH`; without a folder one that must be ready as well, such as `HelmRelease/NAMESPACE/NAME`; may be
    /// repeated
    #[arg(long, value_name = "OBJECT", required = true)]
    object: Vec<FollowedObject>,
    /// For how long nothing may come of one object while others report
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    silence: u32,
    /// Give a site that is registered a new secret, and refuse a name that is not; an agent that reported for it until now reports no more
    #[arg(long)]
    replace: bool,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open_signing(common)?;
    let secrets = hub.webhook_secrets()?;
    let fleet = hub.fleet().to_owned();
    let now_ms = time::now_ms();
    let ca = args.ca.as_ref().map(std::path::absolute).transpose();
    let ca = ca.map_err(|error| usage(format!("`--ca`: {error}"), "give the path of a file"))?;
    let secret = hub.store.write(|session| {
        let (environment, cluster_type) = (&args.environment, &args.cluster_type);
        let role = session.role_of_stream(environment.as_str(), cluster_type.as_str())?;
        let role = role.and_then(|role| role.parse().ok()).ok_or_else(|| {
            usage(
                format!("this hub has no bundle of {environment}/{cluster_type}"),
                "import one (`outhaul-hub import`): it has what the site should run; nothing was changed",
            )
        })?;
        let settings = WebhookSettings {
            stream: Stream {
                role,
                environment: environment.clone(),
                cluster_type: cluster_type.clone(),
            },
            repository: args.repository.clone(),
            record: args.record.clone(),
            ca,
            objects: args.object.clone(),
            silence_hours: args.silence,
        };
        let registrar = Registrar {
            secrets: &secrets,
            fleet: &fleet,
            by: BY,
            now_ms,
        };
        let site = (&args.site, args.sender);
        let secret = register(session, registrar, site, &settings, args.replace);
        let secret = secret.map_err(|error| match error {
            RegisterError::Store(error) => HubError::from(error),
            RegisterError::Key(error) => HubError::from(crate::state::StateError::from(error)),
            known @ RegisterError::Known { .. } => HubError::Refused {
                problem: known.to_string(),
                help: "choose another name; or repeat with `--replace`: what reported for it until now reports no more; nothing was \
                       changed"
                    .to_owned(),
            },
            RegisterError::Unknown { ref near, .. } => {
                let meant = near.as_ref().map(|near| format!("did you mean `{near}`? "));
                let meant = meant.unwrap_or_default();
                let help = format!("{meant}leave `--replace` out to register a new site; nothing was changed");
                usage(error.to_string(), &help)
            }
            other => usage(other.to_string(), "nothing was changed"),
        })?;
        let detail = format!("`{}` of {environment}/{cluster_type}, by {}", args.site, args.sender);
        note(session, "site webhook", detail, now_ms)?;
        Ok::<_, HubError>(secret)
    })?;
    let address = format!("{}/{}/{}", path::WEBHOOKS, args.sender, args.site);
    match common.output {
        Output::Json => print::json(&json!({
            "site": args.site, "sender": args.sender, "path": address, "secret": secret,
        })),
        Output::Text => {
            print::data(&secret);
            print::talk(&format!(
                "Above is the secret of site `{}`: it is not shown again. Its {} sends to {address} of this hub; docs/platform-engineer.md \
                 has its settings.",
                args.site, args.sender
            ));
        }
    }
    Ok(0)
}
