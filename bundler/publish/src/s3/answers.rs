//! What S3-compatible storage answers: small XML documents, of which a few elements count.
//!
//! What comes in: bounded text of a server. What goes out: the elements that are asked for. Nothing is believed for standing there: what
//! cannot be found is missing.

/// What is wrong, as a server reports it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServerError {
    /// `: NoSuchBucket, The specified bucket does not exist`; empty when it states nothing.
    pub(super) reason: String,
    /// The region in which the bucket is.
    pub(super) region: Option<String>,
}

/// Most characters of a reason.
const MAX_REASON: usize = 300;

/// What an error's document says.
pub(super) fn error(text: &str) -> ServerError {
    let parts = ["Code", "Message"]
        .into_iter()
        .filter_map(|name| element(text, name));
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    let reason: String = parts
        .join(", ")
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_REASON)
        .collect();
    ServerError {
        reason: match reason.is_empty() {
            true => reason,
            false => format!(": {reason}"),
        },
        region: element(text, "Region"),
    }
}

/// The text of the first element `name`.
pub(super) fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once(&format!("</{name}>"))?;
    Some(unescaped(value))
}

/// The text of each element `name`.
pub(super) fn elements(text: &str, name: &str) -> Vec<String> {
    let begin = format!("<{name}>");
    let end = format!("</{name}>");
    let found = text.split(&begin).skip(1);
    found
        .filter_map(|rest| rest.split_once(&end).map(|(value, _)| value.to_owned()))
        .collect()
}

fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"")
        .replace("&#34;", "\"")
        .replace("&apos;", "'")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// Text for an element.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_code_and_the_message() {
        let text = "<?xml version=\"1.0\"?><Error><Code>AuthorizationHeaderMalformed</Code><Message>the region \
                    'x' is wrong</Message><Region>eu-1</Region></Error>";
        let reported = error(text);
        assert_eq!(
            reported.reason,
            ": AuthorizationHeaderMalformed, the region 'x' is wrong"
        );
        assert_eq!(reported.region.as_deref(), Some("eu-1"));
        for text in [
            "",
            "<Code>",
            "<Code></Code>",
            "<html>no</html>",
            "</Code><Code>",
        ] {
            assert_eq!(error(text), ServerError::default(), "{text}");
        }
    }

    #[test]
    fn a_tag_with_quotes_comes_back_as_it_was() {
        let text = "<Part><PartNumber>1</PartNumber><ETag>&quot;a&amp;b&quot;</ETag></Part><Part>x</Part><Part>";
        let parts = elements(text, "Part");
        assert_eq!(parts.len(), 2);
        assert_eq!(element(&parts[0], "ETag").as_deref(), Some("\"a&b\""));
        assert_eq!(escaped("\"a&b\""), "&quot;a&amp;b&quot;");
    }
}
