"""From records to certificates: count records, certify counts, count looks, monitor later periods."""
