//! Tests size lists made of random bytes: parsing never panics, and accepted lists keep their
//! promises.

use replay::Sizes;
use trace::damage::{AMOUNT, feed};

#[test]
fn ten_million_bytes_as_sizes() {
    let samples = [
        "1000..100000:50",
        "5, 3,100000",
        "10..40:4:linear,7,1..9:3:log",
        "512MiB,4K,10%,1%..50%:5",
    ];
    let samples: Vec<Vec<u8>> = samples.iter().map(|s| s.as_bytes().to_vec()).collect();
    let mut accepted = 0_u64;
    feed(1, &samples, AMOUNT, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        match text.parse::<Sizes>() {
            Ok(sizes) => {
                accepted += 1;
                let list = sizes.of(1000).pages;
                assert!(
                    !list.is_empty() && list.is_sorted_by(|a, b| a < b),
                    "{text:?}"
                );
                assert!(list[0] >= 1, "{text:?}");
                assert!(
                    sizes.shares.iter().all(|s| *s > 0.0 && *s <= 1.0),
                    "{text:?}"
                );
            }
            Err(e) => assert!(e.to_string().contains("accepted: "), "{text:?}"),
        }
    });
    assert!(accepted > 1000, "{accepted}");
}
