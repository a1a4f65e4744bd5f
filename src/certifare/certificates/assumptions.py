"""Sentences that certificates must state: their assumptions, and what they do not claim."""

#: Assumptions of every certificate.
ASSUMPTIONS = (
    "The encoder was fixed before the certification records were drawn, and none of them was used to fit it.",
    "The certification records of each group are independent draws from the population that the claim is about.",
)
#: Replaces the first assumption if the certification records set the thresholds of the encoder.
SET_THRESHOLDS = (
    "The certification records set the thresholds of each group, and nothing else of the encoder: thresholds are order "
    "statistics of the group's records (for a metric about one label, of those with that label), by a plan that was "
    "fixed before any of them was looked at. Ties are broken by independent random numbers."
)
#: An assumption that begins with this word states that the certificate is not valid.
VOID = "VOID"
#: Additional assumption of a bound by a fixed sequence.
FIXED_IN_ADVANCE = (
    "The encoders of the sequence, their order and the target were fixed before any certification record was looked at."
)
#: Additional assumption of a bound by capped weights.
CAP_FIXED = "The cap on the weights was fixed without looking at the certification records."
#: Additional assumption of looks after the first.
FIXED_LOOKS = (
    "What each look at these records certified was fixed without regard to what earlier looks at them had shown, save "
    "that they did not suffice."
)
#: Additional assumption of an encoder that reads the group.
READS_GROUP = (
    "The encoder reads the group: each record is encoded by the group that it is counted in. A record for which "
    "another group is stated may fall into another cell, and nothing is claimed about such records."
)
#: Additional assumption of counts of several data holders.
OTHER_PEOPLE = "Records that different holders counted are of different people, and drawn independently of each other."
#: Statement of a certificate whose records were not compared with the training records.
NOT_LOOKED_UP = "Whether any of the certification records was used to fit the encoder was not looked up."
#: What no certificate claims.
NOT_CLAIMED = (
    "Nothing is claimed about individuals, or about groups that were not counted.",
    "Nothing is claimed about the label being just, or about the accuracy of any classifier.",
    "Nothing is claimed about other data joined to the representation.",
)


def assumed(method: str) -> tuple[str, ...]:
    """Return the assumptions of every certificate by a method."""
    return (SET_THRESHOLDS, *ASSUMPTIONS[1:]) if method == "calibrated" else ASSUMPTIONS
