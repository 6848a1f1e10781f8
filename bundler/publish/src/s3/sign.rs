//! AWS Signature Version 4, in the headers of a request.
//!
//! What comes in: a request with the digest of its body, credentials, a time. What goes out: the headers that sign it. Pure: it reads no
//! clock. The secret key is in no message.

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use outhaul_bundle::Digest;
use outhaul_kit::percent;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::credentials::Credentials;

/// A request, as far as it is signed.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    /// From the first slash on; every character may stand in a URL as it is.
    pub(super) path: &'a str,
    /// As [`query`] gives it.
    pub(super) query: &'a str,
    /// Further headers that are signed: lower case, sorted.
    pub(super) headers: &'a [(&'a str, &'a str)],
    /// The digest of its body.
    pub(super) body: Digest,
}

/// Signs requests to one region.
#[derive(Debug)]
pub(super) struct Signer {
    credentials: Credentials,
    region: String,
}

impl Signer {
    pub(super) fn new(credentials: Credentials, region: &str) -> Self {
        Self {
            credentials,
            region: region.to_owned(),
        }
    }

    pub(super) fn region(&self) -> &str {
        &self.region
    }

    /// The headers to add.
    #[expect(clippy::format_collect, reason = "a short text")]
    pub(super) fn sign(
        &self,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Vec<(&'static str, String)> {
        let now = now.to_zoned(TimeZone::UTC);
        let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let date = now.strftime("%Y%m%d").to_string();
        let body = request.body.hex();
        let mut headers = vec![
            ("host", request.host),
            ("x-amz-content-sha256", body.as_str()),
            ("x-amz-date", time.as_str()),
        ];
        let token = self.credentials.token();
        headers.extend(token.map(|token| ("x-amz-security-token", token)));
        headers.extend(request.headers);
        headers.sort_unstable();
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let lines: String = headers
            .iter()
            .map(|(name, value)| format!("{name}:{}\n", value.trim()))
            .collect();
        let canonical = format!(
            "{}\n{}\n{}\n{lines}\n{names}\n{body}",
            request.method, request.path, request.query
        );
        let scope = format!("{date}/{}/s3/aws4_request", self.region);
        let digest = Digest::of(canonical.as_bytes()).hex();
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}");
        let first = Zeroizing::new(format!("AWS4{}", self.credentials.secret()));
        let steps = [date.as_str(), &self.region, "s3", "aws4_request"];
        let key = steps
            .iter()
            .fold(Zeroizing::new(first.as_bytes().to_vec()), |key, step| {
                Zeroizing::new(mac(&key, step))
            });
        let signature = hex::encode(mac(&key, &text));
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            self.credentials.id()
        );
        let mut all = vec![
            ("x-amz-content-sha256", body.clone()),
            ("x-amz-date", time.clone()),
            ("Authorization", authorization),
        ];
        all.extend(token.map(|token| ("x-amz-security-token", token.to_owned())));
        all
    }
}

/// A query in the form that is signed: sorted and encoded.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let encoded = |text: &str| percent::encoded(text).to_string();
    let mut pairs: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
        .collect();
    pairs.sort_unstable();
    pairs.join("&")
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    // HMAC takes keys of any length.
    Hmac::<Sha256>::new_from_slice(key).map_or_else(
        |_| Vec::new(),
        |mut mac| {
            mac.update(text.as_bytes());
            mac.finalize().into_bytes().to_vec()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of AWS's documentation of Signature Version 4 for S3.
    fn signature(path: &str, query: &str, headers: &[(&str, &str)]) -> String {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let credentials = Credentials::new("AKIAIOSFODNN7EXAMPLE", secret, None);
        let request = Request {
            method: "GET",
            host: "examplebucket.s3.amazonaws.com",
            path,
            query,
            headers,
            body: Digest::of(b""),
        };
        let now = "2013-05-24T00:00:00Z".parse().unwrap();
        let signed = Signer::new(credentials, "us-east-1").sign(&request, now);
        let (_, value) = signed
            .iter()
            .find(|(name, _)| *name == "Authorization")
            .unwrap();
        value.rsplit_once('=').unwrap().1.to_owned()
    }

    #[test]
    fn signatures_are_those_of_the_documentation() {
        assert_eq!(
            signature("/test.txt", "", &[("range", "bytes=0-9")]),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        assert_eq!(
            signature("/", &query(&[("lifecycle", "")]), &[]),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        assert_eq!(
            signature("/", &query(&[("prefix", "J"), ("max-keys", "2")]), &[]),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
    }

    #[test]
    fn a_query_is_encoded_and_sorted() {
        assert_eq!(
            query(&[("uploadId", "a/b+c="), ("partNumber", "3")]),
            "partNumber=3&uploadId=a%2Fb%2Bc%3D"
        );
    }
}
