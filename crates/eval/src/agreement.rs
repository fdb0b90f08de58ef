//! Whom three policies let speak for clusters of duplicates → how often they agree, and which of them stands alone.
//!
//! Invariant: two policies agree at least as often as all three do. What does not follow from the counts is `None`.

use crate::share::Share;
use serde::Serialize;

/// How many clusters policies agree on. Pairs may be unknown, where the counts come from a printed table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Agreement {
    /// Clusters.
    pub clusters: u64,
    /// Those on which all three agree.
    pub all: u64,
    /// Those on which the best score and freshness agree.
    pub score_fresh: Option<u64>,
    /// Those on which the best score and authority agree.
    pub score_authority: Option<u64>,
    /// Those on which freshness and authority agree.
    pub fresh_authority: Option<u64>,
}

/// Counts that no three choices can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{pair}` agree on {agreed} of {clusters} clusters, want at least the {all} on which all three agree"
)]
pub struct AgreementError {
    /// The two policies.
    pub pair: &'static str,
    /// On how many clusters they agree.
    pub agreed: u64,
    /// On how many all three agree.
    pub all: u64,
    /// Clusters.
    pub clusters: u64,
}

impl Agreement {
    /// Counts over clusters: of each whom the best score, freshness and authority let speak.
    pub fn of<T: PartialEq>(choices: impl IntoIterator<Item = [T; 3]>) -> Agreement {
        let mut agreement = Agreement::default();
        let [mut score_fresh, mut score_authority, mut fresh_authority] = [0; 3];
        for [score, fresh, authority] in choices {
            agreement.clusters += 1;
            agreement.all += u64::from(score == fresh && fresh == authority);
            score_fresh += u64::from(score == fresh);
            score_authority += u64::from(score == authority);
            fresh_authority += u64::from(fresh == authority);
        }
        agreement.score_fresh = Some(score_fresh);
        agreement.score_authority = Some(score_authority);
        agreement.fresh_authority = Some(fresh_authority);
        agreement
    }

    /// Checks counts that were not counted here.
    ///
    /// # Errors
    /// [`AgreementError`] for a pair that agrees on fewer clusters than all three do, or on more than there are.
    pub fn check(&self) -> Result<(), AgreementError> {
        let pairs = [
            ("score and fresh", self.score_fresh),
            ("score and authority", self.score_authority),
            ("fresh and authority", self.fresh_authority),
        ];
        let (all, clusters) = (self.all, self.clusters);
        for (pair, agreed) in pairs.into_iter().filter_map(|(pair, n)| Some((pair, n?))) {
            if !(all..=clusters).contains(&agreed) {
                return Err(AgreementError { pair, agreed, all, clusters });
            }
        }
        Ok(())
    }

    /// The share of clusters on which the best score stands alone: the other two agree, and not with it.
    pub fn score_alone(&self) -> Option<Share> {
        self.alone(self.fresh_authority)
    }

    /// The share of clusters on which freshness stands alone.
    pub fn fresh_alone(&self) -> Option<Share> {
        self.alone(self.score_authority)
    }

    /// The share of clusters on which authority stands alone.
    pub fn authority_alone(&self) -> Option<Share> {
        self.alone(self.score_fresh)
    }

    /// The share of clusters on which so many agree. `None` where that is not known.
    pub fn share(&self, agreed: Option<u64>) -> Option<Share> {
        Share::new(agreed?, self.clusters).ok()
    }

    fn alone(&self, others_agree: Option<u64>) -> Option<Share> {
        self.share(others_agree?.checked_sub(self.all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn percent(share: Option<Share>) -> Option<String> {
        share.and_then(Share::percent)
    }

    #[test]
    fn who_stands_alone_follows_from_the_pairs_that_are_known() {
        let printed = Agreement {
            clusters: 4100,
            all: 2501,
            score_fresh: Some(2788),
            fresh_authority: Some(3034),
            score_authority: None,
        };
        assert_eq!(printed.check(), Ok(()));
        assert_eq!(percent(printed.share(Some(printed.all))).as_deref(), Some("61.0"));
        assert_eq!(percent(printed.share(printed.score_fresh)).as_deref(), Some("68.0"));
        assert_eq!(percent(printed.share(printed.fresh_authority)).as_deref(), Some("74.0"));
        assert_eq!(percent(printed.authority_alone()).as_deref(), Some("7.0"));
        assert_eq!(percent(printed.score_alone()).as_deref(), Some("13.0"));
        assert_eq!(printed.fresh_alone(), None, "it needs the third pair");
    }

    #[test]
    fn two_agree_at_least_as_often_as_three() {
        let counts =
            Agreement { clusters: 100, all: 61, score_fresh: Some(60), ..Agreement::default() };
        let error = counts.check().unwrap_err().to_string();
        assert!(error.starts_with("`score and fresh` agree on 60 of 100 clusters"), "{error}");
        assert!(Agreement { score_fresh: Some(101), ..counts }.check().is_err());
        assert_eq!(counts.authority_alone(), None, "no share follows from what cannot be");
    }

    #[test]
    fn choices_are_counted() {
        let choices = [[1, 1, 1], [1, 1, 2], [1, 2, 2], [1, 2, 1], [1, 2, 3]];
        let agreement = Agreement::of(choices);
        assert_eq!((agreement.clusters, agreement.all), (5, 1));
        let pairs = [agreement.score_fresh, agreement.score_authority, agreement.fresh_authority];
        assert_eq!(pairs, [Some(2), Some(2), Some(2)]);
        let alone = [agreement.score_alone(), agreement.fresh_alone(), agreement.authority_alone()];
        assert!(alone.iter().all(|share| share.unwrap().count() == 1));
        assert_eq!(percent(Agreement::of([[0; 3]; 0]).score_alone()), None);
    }

    proptest! {
        #[test]
        fn counted_choices_are_never_refused(
            choices in prop::collection::vec(prop::array::uniform3(0u8..3), 0..40),
        ) {
            let agreement = Agreement::of(choices.iter().copied());
            prop_assert_eq!(agreement.check(), Ok(()));
            let alone = [agreement.score_alone(), agreement.fresh_alone(), agreement.authority_alone()];
            let alone: u64 = alone.iter().map(|share| share.unwrap().count()).sum();
            let differ = choices.iter().filter(|[a, b, c]| a != b && b != c && a != c).count() as u64;
            prop_assert_eq!(agreement.all + alone + differ, agreement.clusters);
        }
    }
}
