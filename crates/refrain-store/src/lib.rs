//! State stores: leases, runs and attempts.
