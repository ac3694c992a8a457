//! What every engine must do. `conformance!(open)` makes a test of each function; `open` returns a
//! [`Fixture`](crate::support::Fixture) with an empty store, or an `Option`: `None` after a message if the server of the
//! engine is not available.

pub(crate) mod creating;
pub(crate) mod ids;
pub(crate) mod lists;
pub(crate) mod logs;
pub(crate) mod queues;
pub(crate) mod records;
pub(crate) mod replacing;
pub(crate) mod writers;

/// What the queue of an engine must do, as `conformance!`.
macro_rules! queue_conformance {
    ($open:ident) => {
        $crate::conformance::conformance!($open; queues:
            a_run_is_claimed_once_and_done,
            an_id_is_added_once,
            the_runs_of_a_session_are_in_order,
            a_session_with_a_higher_priority_is_first,
            a_run_does_not_start_before_its_time_and_blocks_nothing,
            a_run_of_another_agent_is_left_to_its_workers,
            an_expired_lease_is_taken_over_and_its_worker_fenced,
            a_heartbeat_extends_a_lease,
            a_started_run_comes_before_an_earlier_one,
            attempts_and_failures_are_counted,
            a_waiting_run_goes_on_when_its_session_was_changed,
            a_waiting_run_goes_on_when_it_is_resumed,
            concurrent_workers_claim_each_run_once,
            a_waiting_worker_wakes_up,
            runs_are_listed_in_pages_the_newest_first,
            old_runs_that_are_done_or_failed_are_removed,
            the_texts_of_a_run_are_replaced_if_they_are_the_expected_ones,
        );
    };
}

pub(crate) use queue_conformance;

/// What the records of an engine must do, as `conformance!`.
macro_rules! record_conformance {
    ($open:ident) => {
        $crate::conformance::conformance!($open; records:
            a_record_has_the_number_of_its_writes_as_version,
            a_write_with_another_version_changes_no_record,
            the_log_of_a_record_is_read_in_pages,
            an_expired_record_counts_as_absent_for_a_write,
            expired_records_are_deleted_with_their_logs,
            of_concurrent_writes_of_a_version_one_is_done,
            records_are_there_after_opening_again,
        );
    };
}

pub(crate) use record_conformance;

macro_rules! conformance {
    ($open:ident) => {
        $crate::conformance::conformance!($open; logs:
            appended_entries_are_read_in_order,
            a_missing_session_has_no_log_no_head_and_no_blobs,
            entries_are_any_bytes,
            the_state_of_a_session_is_that_of_the_last_entry,
            blobs_are_read_in_the_order_of_the_addresses,
            a_blob_that_the_session_has_is_not_stored_again,
            sessions_do_not_share_blobs,
            a_deleted_session_is_gone_and_can_be_created_again,
            a_closed_store_refuses_every_operation,
            operations_that_have_started_finish_before_the_store_closes,
            a_new_store_has_no_defects,
            what_was_written_is_there_after_opening_again,
        );
        $crate::conformance::conformance!($open; writers:
            a_stale_append_conflicts_and_stores_nothing,
            an_append_to_a_new_session_conflicts_with_an_existing_one,
            an_append_to_a_deleted_session_conflicts,
            a_head_has_the_right_revision_and_digest,
            of_concurrent_writers_one_wins_each_revision,
            appends_that_wait_together_have_their_own_results,
            concurrent_writers_of_different_sessions_do_not_conflict,
            two_open_stores_see_each_others_writes,
            a_dropped_append_is_done_as_a_whole_or_not_at_all,
            an_older_fencing_token_is_refused,
        );
        $crate::conformance::conformance!($open; replacing:
            a_replaced_log_has_the_new_entries_and_revision,
            a_stale_replace_conflicts_and_changes_nothing,
            a_replace_can_create_a_session,
            a_replace_removes_other_blobs,
            a_replace_with_wrong_numbers_is_invalid,
            a_replace_keeps_the_fencing_token,
        );
        $crate::conformance::conformance!($open; creating:
            the_sessions_of_a_batch_are_created,
            a_batch_with_a_session_that_exists_creates_none,
            a_batch_that_fails_creates_none,
            a_batch_that_is_dropped_is_created_as_a_whole_or_not_at_all,
        );
        $crate::conformance::conformance!($open; lists:
            the_most_recently_updated_session_is_first,
            pages_have_each_session_once,
            filters_select_sessions,
            pages_are_stable_while_sessions_change,
            a_wrong_position_or_limit_is_invalid,
            deleted_sessions_are_not_listed,
        );
        $crate::conformance::conformance!($open; ids:
            any_printable_id_names_its_own_session,
            an_id_is_no_pattern,
        );
    };
    ($open:ident; $module:ident: $($test:ident,)*) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    if let Some(fixture) = Option::<$crate::support::Fixture>::from(super::$open()) {
                        $crate::support::block_on($crate::conformance::$module::$test(fixture));
                    }
                }
            )*
        }
    };
}

pub(crate) use conformance;
