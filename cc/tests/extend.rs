//! Tests of the user's own controllers, added to Fathom's. The catalogue can be extended only once
//! per process, so there is only one test.

use fathom_cc::algorithm::Algorithm;
use fathom_cc::catalogue::{self, CATALOGUE, ExtendError};
use fathom_cc::testing::BROKEN;

#[test]
fn controllers_added_to_the_catalogue_are_found_by_name() {
    let named = |name| -> &'static [Algorithm] { vec![Algorithm { name, ..BROKEN[0] }].leak() };
    let refused = |added| catalogue::extend(added).expect_err("refused");
    assert_eq!(refused(named("Mine")), ExtendError::NoName { given: "Mine" });
    assert_eq!(refused(named("mine/2")), ExtendError::NoName { given: "mine/2" });
    assert_eq!(refused(named("cubic")), ExtendError::Taken { name: "cubic" });
    assert_eq!(refused(named("ghstcp")), ExtendError::Taken { name: "ghstcp" }, "an alias");
    assert_eq!(
        refused(vec![BROKEN[0], BROKEN[0]].leak()),
        ExtendError::Taken { name: BROKEN[0].name }
    );
    assert_eq!(catalogue::all().count(), CATALOGUE.len(), "nothing was added");

    catalogue::extend(BROKEN).expect("names of their own");
    for added in BROKEN {
        let config = catalogue::parse(added.name).expect(added.name);
        assert_eq!(
            (config.name(), config.spec(), config.required()),
            (added.name, added.name.to_owned(), added.required)
        );
    }
    assert_eq!(
        catalogue::parse("packet-size/never-grows").expect("wrapped").spec(),
        "packet-size/never-grows"
    );
    let added = [
        "never-grows",
        "packet-size/never-grows",
        "packet-size:floor=300 / never-grows:hystart=on",
    ];
    assert!(added.iter().all(|spec| catalogue::is_added(spec)));
    assert!(
        !["cubic", "packet-size/cubic", "native:never-grows", ""]
            .iter()
            .any(|spec| catalogue::is_added(spec))
    );
    let hint = catalogue::parse("never-grow").expect_err("no such").to_string();
    assert!(hint.contains("did you mean 'never-grows'?"), "{hint}");
    assert_eq!(refused(named("mine")), ExtendError::Again);
}
