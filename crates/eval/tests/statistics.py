"""Lines of JSON, each a call and its result → whether scipy and statsmodels say the same.

Prints how many calls agree. Ends with 1, and the call, where one does not.
"""

import json
import math
import sys

import numpy as np
from scipy.stats import binomtest, bootstrap, norm
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint


def wilson(count, of, level):
    return proportion_confint(count, of, alpha=1 - level, method="wilson")


def wald(count, of, level):
    # statsmodels cuts it off at 0 and 1, and so would not show whether we do.
    p = count / of
    half = norm.ppf((1 + level) / 2) * math.sqrt(p * (1 - p) / of)
    return p - half, p + half


def newcombe(a, of_a, b, of_b, level):
    return confint_proportions_2indep(b, of_b, a, of_a, method="newcomb", compare="diff", alpha=1 - level)


def wald_difference(a, of_a, b, of_b, level):
    return confint_proportions_2indep(b, of_b, a, of_a, method="wald", compare="diff", alpha=1 - level)


def mcnemar_exact(both, only_a, only_b, neither):
    return [mcnemar([[both, only_a], [only_b, neither]], exact=True).pvalue]


def exact_difference(both, only_a, only_b, neither, level):
    only_a, only_b = int(only_a), int(only_b)
    discordant, n = only_a + only_b, both + only_a + only_b + neither
    if discordant == 0:
        return 0.0, 0.0
    limits = binomtest(only_b, discordant).proportion_ci(level, method="exact")
    return [discordant / n * (2 * limit - 1) for limit in (limits.low, limits.high)]


def holm(*p_values):
    return multipletests(p_values, method="holm")[1]


def required_n(difference, discordance, level, power):
    alpha, beta = norm.ppf((1 + level) / 2), norm.ppf(power)
    root = alpha * math.sqrt(discordance) + beta * math.sqrt(discordance - difference**2)
    return [math.ceil((root / difference) ** 2)]


def required_n_of_mean(difference, deviation, level, power):
    reach = norm.ppf((1 + level) / 2) + norm.ppf(power)
    return [math.ceil((reach * deviation / difference) ** 2)]


def kappa(*counts):
    side = math.isqrt(len(counts))
    found = cohens_kappa(np.array(counts).reshape(side, side))
    half = norm.ppf(0.975) * found.std_kappa
    return found.kappa, found.kappa - half, found.kappa + half


def bootstrap_mean(level, *values):
    drawn = bootstrap(
        (np.array(values),), np.mean, confidence_level=level, n_resamples=10_000, method="percentile",
        random_state=np.random.default_rng(0),
    )
    return drawn.confidence_interval.low, drawn.confidence_interval.high


FUNCTIONS = {
    "wilson": (wilson, 1e-9),
    "wald": (wald, 1e-9),
    "newcombe": (newcombe, 1e-9),
    "wald_difference": (wald_difference, 1e-9),
    "mcnemar": (mcnemar_exact, 1e-9),
    "exact_difference": (exact_difference, 1e-9),
    "holm": (holm, 1e-12),
    "required_n": (required_n, 0),
    "required_n_of_mean": (required_n_of_mean, 0),
    "kappa": (kappa, 1e-9),
    # Two random sequences: the quantiles of 10,000 means of 60 values differ by less than this.
    "bootstrap_mean": (bootstrap_mean, 0.02),
}


def main():
    agree = 0
    for line in sys.stdin:
        call = json.loads(line)
        function, tolerance = FUNCTIONS[call["function"]]
        expected = [float(value) for value in function(*call["arguments"])]
        close = len(expected) == len(call["result"]) and all(
            abs(got - wanted) <= tolerance for got, wanted in zip(call["result"], expected)
        )
        if not close:
            print(f"{line.strip()} should be {expected}", file=sys.stderr)
            return 1
        agree += 1
    print(agree)
    return 0


if __name__ == "__main__":
    sys.exit(main())
