//! Bodies of requests: bounded, in a lane, and never waited for without progress.
//!
//! What comes in: a body on its way. What goes out: its bytes, or why not. A body that sends nothing for
//! half a minute ends, and so does one that has to give way to others; one that is announced to be too
//! large is not read at all.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use outhaul_listen::Peer;

use super::problem::Problem;
use outhaul_listen::lanes::Lane;

/// Time between two pieces of a body.
const PIECE_WITHIN: Duration = Duration::from_secs(30);
/// Time for a whole body: 16 MiB over a link of 256 kbit/s.
const BODY_WITHIN: Duration = Duration::from_secs(600);

/// Reads all of a body of at most `max` bytes; `text` says what is expected instead of a larger one.
pub(super) async fn whole(
    lane: &Arc<Lane>,
    peer: Peer,
    body: Body,
    max: usize,
    text: &str,
) -> Result<Vec<u8>, Problem> {
    let too_large = || {
        let text = format!("more than {max} bytes: {text}");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    };
    if hyper::body::Body::size_hint(&body).lower() > max as u64 {
        return Err(too_large());
    }
    match read(lane, peer, body, max).await? {
        (bytes, true) => Ok(bytes),
        (_, false) => Err(too_large()),
    }
}

/// Reads at most `max` bytes; says whether that was all.
pub(super) async fn read(
    lane: &Arc<Lane>,
    peer: Peer,
    body: Body,
    max: usize,
) -> Result<(Vec<u8>, bool), Problem> {
    let room = lane.enter(peer.0);
    let late = |text: &str| Problem::new(StatusCode::REQUEST_TIMEOUT, text);
    let pieces = async {
        let (mut body, mut bytes) = (body, Vec::new());
        loop {
            let frame = std::future::poll_fn(|context| {
                hyper::body::Body::poll_frame(Pin::new(&mut body), context)
            });
            let Ok(frame) = tokio::time::timeout(PIECE_WITHIN, frame).await else {
                return Err(late("the body stopped; send again"));
            };
            match frame {
                None => return Ok((bytes, true)),
                Some(Err(error)) => {
                    let text = format!("the body cannot be read: {error}");
                    return Err(Problem::new(StatusCode::BAD_REQUEST, text));
                }
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else {
                        continue;
                    };
                    let fits = data.len().min(max - bytes.len());
                    if !room.grow(fits) {
                        return Err(gave_way());
                    }
                    bytes.extend_from_slice(&data[..fits]);
                    if fits < data.len() {
                        return Ok((bytes, false));
                    }
                }
            }
        }
    };
    tokio::select! {
        read = tokio::time::timeout(BODY_WITHIN, pieces) => {
            read.unwrap_or_else(|_| Err(late("the body took too long; send less at once")))
        }
        () = room.gone() => Err(gave_way()),
    }
}

fn gave_way() -> Problem {
    let text = "too many bodies at once, and this one was the slowest; send again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, text)
}
