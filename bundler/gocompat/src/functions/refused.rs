//! Functions of sprig that Outhaul refuses, and why.
//!
//! In: nothing. Out: reasons. A rendering must give the same bytes on every machine at any
//! time, and a config author must not read the machine that renders (defect 11).

use super::{Body, Function, Ty};

const CLOCK: &str = "it reads the clock, so two renderings of one commit would differ";
const ZONE: &str =
    "it uses the time zone of the machine that renders; use dateInZone with a zone instead";
const RANDOM: &str = "it is random, so two renderings of one commit would differ";
const HOST: &str = "it reads the environment of the machine that renders, which may hold secrets";
const NETWORK: &str = "it asks the network, so a rendering would depend on when and where it runs";
const SECRET: &str = "keys and passwords do not belong in rendered text";

const fn refused(name: &'static str, why: &'static str) -> Function {
    Function {
        name,
        params: &[],
        rest: Some(Ty::Any),
        body: Body::Refused(why),
        own: false,
    }
}

pub(super) const FUNCTIONS: &[Function] = &[
    refused("now", CLOCK),
    refused("ago", CLOCK),
    refused("date", ZONE),
    refused("htmlDate", ZONE),
    refused("randAlphaNum", RANDOM),
    refused("randAlpha", RANDOM),
    refused("randAscii", RANDOM),
    refused("randNumeric", RANDOM),
    refused("shuffle", RANDOM),
    refused("uuidv4", RANDOM),
    refused("env", HOST),
    refused("expandenv", HOST),
    refused("getHostByName", NETWORK),
    refused("genPrivateKey", RANDOM),
    refused("genCA", RANDOM),
    refused("genSelfSignedCert", RANDOM),
    refused("genSignedCert", RANDOM),
    refused("encryptAES", RANDOM),
    refused("decryptAES", SECRET),
    refused("derivePassword", SECRET),
    refused("buildCustomCert", SECRET),
];
