//! One HTTP GET over a plain socket: all that the web front needs, without a client library.

use axum::http::Uri;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{CALL_TIMEOUT, WorkloadError};

/// Longest answer that is read; the api's is some 200 bytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Fetches `http://host[:port]path` and returns the body of a 200.
///
/// # Errors
/// The address is not `http://…`, the peer does not answer within 1.5 s, or not with 200.
pub async fn fetch(base: &Uri, path: &str) -> Result<String, WorkloadError> {
    let bad = || WorkloadError::Address(base.to_string());
    let host = base.host().filter(|_| base.scheme_str() == Some("http")).ok_or_else(bad)?;
    let port = base.port_u16().unwrap_or(80);
    let work = async {
        let mut socket = TcpStream::connect((host, port)).await?;
        // 1.0: the peer then sends neither chunks nor keeps the connection.
        let request = format!("GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: */*\r\n\r\n");
        socket.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        socket.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
        Ok::<_, WorkloadError>(answer)
    };
    let answer = timeout(CALL_TIMEOUT, work).await.map_err(|_| WorkloadError::Timeout("the api"))??;
    body(&String::from_utf8_lossy(&answer))
}

fn body(answer: &str) -> Result<String, WorkloadError> {
    let first = answer.lines().next().unwrap_or_default();
    match (first.split(' ').nth(1), answer.split_once("\r\n\r\n")) {
        (Some("200"), Some((_, body))) => Ok(body.to_owned()),
        (_, rest) => {
            let said = rest.map_or("", |(_, body)| body).trim();
            Err(WorkloadError::Answer(format!("{first}: {said}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_200_with_a_complete_head_has_a_body() {
        assert_eq!(body("HTTP/1.0 200 OK\r\na: b\r\n\r\nhello\r\n\r\n!").unwrap(), "hello\r\n\r\n!");
        for bad in ["", "HTTP/1.0 200 OK\r\na: b", "HTTP/1.0 503 Gone\r\n\r\nwhy", "HTTP/1.0 302 Go\r\n\r\n"]
        {
            assert!(body(bad).is_err(), "{bad:?}");
        }
        let error = body("HTTP/1.0 503 Service Unavailable\r\n\r\nno database\n").unwrap_err().to_string();
        assert_eq!(error, "unexpected answer: HTTP/1.0 503 Service Unavailable: no database");
    }

    #[tokio::test]
    async fn only_plain_http_addresses_are_dialled() {
        for bad in ["https://127.0.0.1/", "/path", "127.0.0.1:1"] {
            let error = fetch(&bad.parse().unwrap(), "/").await.unwrap_err();
            assert!(matches!(error, WorkloadError::Address(_)), "{bad}: {error}");
        }
    }
}
