//! Runs the contract tests for every controller of the catalogue.

fathom_cc::contract_tests!(fathom_cc::catalogue::CATALOGUE);

#[test]
fn every_contract_property_has_a_test() {
    let source = include_str!("../src/testing/contract.rs");
    let named = |line: &str| {
        Some(line.strip_prefix("pub fn ")?.strip_suffix("(entries: Entries) {")?.to_owned())
    };
    let properties: Vec<String> = source.lines().filter_map(named).collect();
    assert!(properties.len() > 20);
    for property in properties {
        assert!(
            source.contains(&format!("\n            {property},\n")),
            "contract_tests! lacks {property}"
        );
    }
}
