//! A failed attempt → another one after a wait, or the error.
//!
//! Invariant: the waits follow from endpoint and answers alone, so the same answers give the same schedule.

use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;

use super::{Endpoint, RemoteError, Wanted};

/// What became of one attempt.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: RemoteError,
    again: Again,
}

#[derive(Debug, Clone, Copy)]
enum Again {
    Never,
    /// After the wait that the server asked for, if it did.
    After(Option<Duration>),
}

impl Failure {
    /// Another attempt may pass.
    pub(super) fn passing(error: RemoteError, wait: Option<Duration>) -> Self {
        Self { error, again: Again::After(wait) }
    }

    /// Another attempt would fail as well, or cost too much.
    pub(super) fn lasting(error: RemoteError) -> Self {
        Self { error, again: Again::Never }
    }
}

impl Endpoint {
    /// Attempts until one passes, one fails for good, none is left or nobody waits any more.
    pub(super) fn retrying<T>(
        &self,
        wanted: Wanted<'_>,
        mut attempt: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T, RemoteError> {
        let mut n_failed = 0;
        loop {
            let Failure { error, again } = match attempt() {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let Again::After(asked) = again else { return Err(error) };
            if n_failed == self.retries || !wanted() {
                return Err(error);
            }
            thread::sleep(self.wait(n_failed, asked));
            if !wanted() {
                return Err(error);
            }
            n_failed += 1;
        }
    }

    /// How long to wait after `n_failed` + 1 failed attempts.
    fn wait(&self, n_failed: u32, asked: Option<Duration>) -> Duration {
        let doubled = self.backoff.saturating_mul(2_u32.saturating_pow(n_failed));
        asked.unwrap_or(doubled).min(self.max_wait)
    }
}

/// Whether the same request may pass later: the server was slow, busy or failed.
pub(super) fn is_worth_another_try(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

/// Reads `Retry-After`: seconds, or a date, which is as many seconds as it lies ahead.
pub(super) fn parse_retry_after(value: &str) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    // Dates of HTTP say `GMT` for what this format calls an offset of zero.
    let date = rfc2822::parse(value).ok()?;
    Some(Duration::try_from(date.timestamp().duration_since(Timestamp::now())).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_the_server_is_heard_up_to_the_same() {
        let endpoint = Endpoint {
            backoff: Duration::from_millis(500),
            max_wait: Duration::from_secs(3),
            ..Endpoint::new("http://localhost")
        };
        let check = |n_failed: u32, asked: Option<u64>, expected_ms: u64| {
            let wait = endpoint.wait(n_failed, asked.map(Duration::from_secs));
            assert_eq!(wait, Duration::from_millis(expected_ms), "{n_failed} {asked:?}");
        };
        check(0, None, 500);
        check(1, None, 1000);
        check(2, None, 2000);
        check(3, None, 3000);
        check(u32::MAX, None, 3000);
        check(0, Some(2), 2000);
        check(0, Some(0), 0);
        check(0, Some(3600), 3000);
    }

    #[test]
    fn a_wait_is_given_in_seconds_or_as_a_date() {
        let check = |value: &str, expected: Option<u64>| {
            assert_eq!(parse_retry_after(value), expected.map(Duration::from_secs), "{value}");
        };
        check("7", Some(7));
        check(" 0 ", Some(0));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(0));
        check("soon", None);
        check("-1", None);
        check("", None);
        let ahead = parse_retry_after("Tue, 01 Jan 2999 00:00:00 GMT").unwrap();
        assert!(ahead > Duration::from_hours(24 * 365));
    }

    #[test]
    fn slow_busy_and_failed_servers_are_asked_again() {
        let check = |status: u16, expected: bool| {
            assert_eq!(is_worth_another_try(status), expected, "{status}");
        };
        for status in [408, 429, 500, 502, 503, 504, 529] {
            check(status, true);
        }
        for status in [301, 400, 401, 403, 404, 413, 422] {
            check(status, false);
        }
    }
}
