"""The sentences that certificates must say: what they assume, and what they do not claim."""

#: What every certificate assumes.
ASSUMPTIONS = (
    "The encoder was fixed before the certification records were drawn, and none of them was used to fit it.",
    "The certification records of each group are independent draws from the population that the claim is about.",
)
#: What a certificate assumes in the place of the first, if its records set the thresholds of the encoder.
SET_THRESHOLDS = (
    "The certification records set the thresholds of each group, and nothing else of the encoder: thresholds are order "
    "statistics of the group's records (for a metric about one label, of those with that label), by a plan that was "
    "fixed before any of them was looked at. Ties are broken by independent random numbers."
)
#: An assumption that begins with this word says that the certificate is not valid.
VOID = "VOID"
#: What the bound of the paper assumes besides.
ONE_POPULATION = (
    "The samples for base rates, cells and sum were drawn from one population, shares of the groups included, the last "
    "independently of the others."
)
#: What a bound by a fixed sequence assumes besides.
FIXED_IN_ADVANCE = (
    "The encoders of the sequence, their order and the target were fixed before any certification record was looked at."
)
#: What a bound by capped weights assumes besides.
CAP_FIXED = "The cap on the weights was fixed without looking at the certification records."
#: What looks after the first assume besides.
FIXED_LOOKS = (
    "What each look at these records certified was fixed without regard to what earlier looks at them had shown, save "
    "that they did not suffice."
)
#: What a certificate of an encoder that reads the group assumes besides.
READS_GROUP = (
    "The encoder reads the group: each record is encoded by the group that it is counted in. A record for which "
    "another group is stated may fall into another cell, and nothing is claimed about such records."
)
#: What counts of several holders assume besides.
OTHER_PEOPLE = "Records that different holders counted are of different people, and drawn independently of each other."
#: What a certificate says if nobody could compare its records with the training records.
NOT_LOOKED_UP = "Whether any of the certification records was used to fit the encoder was not looked up."
#: What no certificate claims.
NOT_CLAIMED = (
    "Nothing is claimed about individuals, or about groups that were not counted.",
    "Nothing is claimed about the label being just, or about the accuracy of any classifier.",
    "Nothing is claimed about other data joined to the representation.",
)


def assumed(method: str) -> tuple[str, ...]:
    """Return what every certificate by a method assumes."""
    return (SET_THRESHOLDS, *ASSUMPTIONS[1:]) if method == "calibrated" else ASSUMPTIONS
