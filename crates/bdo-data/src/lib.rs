//! Scans, cohorts, labels, splits and synthetic brains.
