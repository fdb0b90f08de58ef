//! Printed tables that close, and those that do not.

use super::*;
use proptest::prelude::*;

/// A table of 16 fired and 384 other queries, with the cells of one system.
fn table(fired: &str, unfired: &str, pooled: &str) -> Table {
    let cell = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
    let system = System {
        name: "merged".to_owned(),
        fired: cell(fired),
        unfired: cell(unfired),
        pooled: cell(pooled),
    };
    Table { fired: 16, unfired: 384, systems: vec![system] }
}

/// The pooled counts, or the error's text.
fn check(table: &Table, expected: &str) {
    let got = match close(table) {
        Ok(rebuilt) => rebuilt.iter().map(|r| r.pooled.to_string()).collect(),
        Err(error) => {
            assert!(!error.hint().is_empty());
            error.to_string()
        }
    };
    assert_eq!(got, expected);
}

#[test]
fn a_table_whose_strata_give_its_pooled_cells_closes() {
    check(&table("56.3", "74.2", "73.5"), "294 of 400 = 73.5");
    check(&table("68.8", "74.2", "74.0"), "296 of 400 = 74.0");
    let rebuilt = close(&table("68.8", "74.2", "74.0")).unwrap();
    let exact = |counts: Counts| counts.exact().unwrap().to_string();
    assert_eq!(exact(rebuilt[0].fired), "11 of 16 = 68.8 %");
    assert_eq!(exact(rebuilt[0].unfired), "285 of 384 = 74.2 %");
}

#[test]
fn a_pooled_cell_of_73_4_does_not_close() {
    check(
        &table("68.8", "74.2", "73.4"),
        "`merged` does not close: strata give 296 of 400 = 74.0, the pooled cell says 73.4",
    );
}

#[test]
fn halves_may_have_been_rounded_down() {
    check(&table("56.2", "74.2", "73.5"), "294 of 400 = 73.5");
    check(&table("56.25", "74.22", "73.50"), "294 of 400 = 73.5");
}

#[test]
fn a_cell_that_is_the_share_of_no_count_is_named() {
    check(&table("57.0", "74.2", "73.5"), "`merged`: no count of 16 gives the fired cell 57.0");
    let none = Table { fired: 0, ..table("56.3", "74.2", "74.2") };
    check(&none, "`merged`: no count of 0 gives the fired cell 56.3");
}

#[test]
fn a_pooled_cell_of_no_count_does_not_close() {
    check(
        &table("68.8", "74.2", "73.4001"),
        "`merged` does not close: strata give 296 of 400 = 74.0, the pooled cell says 73.4001",
    );
}

#[test]
fn an_absent_cell_says_nothing() {
    check(&table("", "74.2", "74.0"), "296 of 400 = 74.0");
    check(&table("", "74.2", "71.3"), "285 of 400 = 71.3");
    check(&table("", "74.2", ""), "285 to 301 of 400 = 71.3 to 75.3");
    let never = Table { fired: 0, ..table("", "74.2", "74.2") };
    check(&never, "285 of 384 = 74.2");
    let nothing = Table { fired: 0, unfired: 0, ..table("", "", "") };
    check(&nothing, "0 of 0 = no share");
}

#[test]
fn coarse_cells_stand_for_several_counts() {
    check(&table("69", "74", "74"), "294 to 297 of 400 = 73.5 to 74.3");
    let large = Table { fired: 160, unfired: 3840, ..table("68.8", "74.2", "73.4") };
    check(
        &large,
        "`merged` does not close: strata give 2958 to 2961 of 4000 = 74.0 to 74.0, the pooled cell says 73.4",
    );
}

#[test]
fn a_percentage_keeps_its_decimals() {
    for (text, expected) in
        [("73.4", "73.4"), ("73.40 %", "73.40"), ("5%", "5"), ("100.0", "100.0")]
    {
        assert_eq!(text.parse::<Percent>().unwrap().to_string(), expected);
    }
    for text in
        ["", ".", "1.", ".5", "73,4", "-1", "+1", "1e1", "100.1", "1.1234567", "NaN", "1234"]
    {
        assert_eq!(text.parse::<Percent>(), Err(PercentError(text.to_owned())));
    }
}

#[test]
fn tables_are_read_from_json() {
    let text = r#"{"fired":16,"unfired":384,"systems":[{"name":"merged","fired":"68.8","unfired":"74.2","pooled":"73.4"}]}"#;
    let read: Table = serde_json::from_str(text).unwrap();
    assert_eq!(read, table("68.8", "74.2", "73.4"));
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

proptest! {
    #[test]
    fn a_table_printed_from_counts_closes(
        n_fired in 1u32..3000, n_unfired in 1u32..3000, a in 0.0f64..1.0, b in 0.0f64..1.0,
    ) {
        let share = |n: u32, part: f64| Share::new((part * f64::from(n)) as u64, n.into()).unwrap();
        let (fired, unfired) = (share(n_fired, a), share(n_unfired, b));
        let cell = |share: Share| share.percent().unwrap();
        let printed = table(&cell(fired), &cell(unfired), &cell(fired + unfired));
        let closed = close(&Table { fired: n_fired, unfired: n_unfired, ..printed }).unwrap();
        let holds = |counts: Counts, share: Share| {
            counts.low <= share.count() && share.count() <= counts.high && counts.of == share.of()
        };
        prop_assert!(holds(closed[0].fired, fired) && holds(closed[0].unfired, unfired));
        prop_assert!(holds(closed[0].pooled, fired + unfired));
    }
}
