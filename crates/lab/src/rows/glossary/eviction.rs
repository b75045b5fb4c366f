//! Words of `mrc`: the eviction policies (`evict::registry`), and the words of its verdict and
//! tables.

use super::Word;
use super::screen::word;

/// Defines the entry of an eviction policy; `text` says which page it evicts.
const fn policy(name: &'static str, also: &'static [&'static str], text: &'static str) -> Word {
    word(name, also, text, "", &["OPT", "miss ratio"])
}

pub(super) const WORDS: &[Word] = &[
    policy(
        "two-list",
        &["two lists"],
        "An eviction policy: Linux's active and inactive list. A page joins the inactive list, its second use there activates it, and pages \
         leave at the inactive list's end.",
    ),
    policy(
        "lru",
        &["least recently used"],
        "An eviction policy: evicts the page whose last use is longest ago. `mrc` computes all sizes in one pass and compares the \
         other policies with it.",
    ),
    policy(
        "fifo",
        &["first in, first out"],
        "An eviction policy: evicts the page that came first, however much it is used.",
    ),
    policy(
        "clock",
        &["second chance"],
        "An eviction policy: first in, first out, with another round for pages that were used since the last one.",
    ),
    policy(
        "s3-fifo",
        &[],
        "An eviction policy: new pages pass a small queue first, and only those that are used there join the main queue. Ghosts of the others \
         join it at once when they come back. Yang and others, SOSP 2023.",
    ),
    policy(
        "sieve",
        &[],
        "An eviction policy: a hand moves over a queue, spares pages that were used, which keep their places, and evicts the first other \
         one. Zhang and others, NSDI 2024.",
    ),
    policy(
        "lfu-ageing",
        &["lfu"],
        "An eviction policy: evicts the page with the fewest uses. Counts are halved every eight turns of the cache, so that old \
         popularity fades.",
    ),
    policy(
        "generational",
        &["generational LRU"],
        "An eviction policy: Linux's multi-generational LRU for file pages. Pages leave by generations, and refaults decide which often \
         used pages stay for another one.",
    ),
    policy(
        "arc",
        &["adaptive replacement cache"],
        "An eviction policy: pages used once and pages used again are in two lists, whose shares follow from which of their ghosts come back. \
         Megiddo and Modha, FAST 2003.",
    ),
    policy(
        "2q",
        &[],
        "An eviction policy: a queue before an LRU list. A page joins the list if it comes back after it left the queue. Johnson and Shasha, \
         VLDB 1994.",
    ),
    policy(
        "lirs",
        &[],
        "An eviction policy: keeps pages with few other pages between their last two uses; the rest go through a queue of a hundredth of the \
         cache. Jiang and Zhang, SIGMETRICS 2002.",
    ),
    policy(
        "w-tinylfu",
        &["tinylfu"],
        "An eviction policy: a window before a segmented LRU, which lets in only pages that were asked for more often than the page that would \
         go. A sketch counts the requests. Einziger and others, TOS 2017.",
    ),
    policy(
        "clock-pro",
        &[],
        "An eviction policy: a ring of hot pages, cold pages and ghosts of cold ones, with a hand for each. Jiang and others, USENIX ATC 2005.",
    ),
    policy(
        "hyperbolic",
        &[],
        "An eviction policy: of 64 pages drawn at random, evicts the one with the fewest uses by its time in the cache. Blankstein and others, \
         USENIX ATC 2017.",
    ),
    word(
        "ghost",
        &["ghosts"],
        "The number of an evicted page, which the policy remembers without the page. A request for a ghost is a miss, but says \
         that the page would have been worth keeping.",
        "",
        &["arc", "s3-fifo"],
    ),
    word(
        "objects",
        &["object"],
        "In `mrc`: the different pages, or with `--ignore-size` the different things, that a trace asks for. As many pages as there are objects hold \
         all of them: the working set.",
        "",
        &["requests", "miss ratio"],
    ),
    word(
        "requests",
        &[],
        "In `mrc`: one for each page that a record of the trace reads or writes, or with `--ignore-size` one for each record. A request is a hit or a \
         miss.",
        "",
        &["objects", "miss ratio"],
    ),
    word(
        "bound",
        &["error bound"],
        "In `mrc`: `opt` is a bound on what any policy can do, and no policy to choose. With `--sample`, ± is a bound on an estimate's error, from \
         the sample itself; it reaches over 0 to 1 where a cache has fewer than 16 pages of the sample, and then nothing is claimed.",
        "",
        &["OPT", "sample"],
    ),
    word(
        "bounds overlap",
        &["the order is open"],
        "In the verdict of `mrc --sample`: the error bound of the policy with the fewest misses reaches that of another, so either may miss less.",
        "a larger sample would tell them apart",
        &["bound", "sample"],
    ),
    word(
        "ties",
        &["tie"],
        "In the verdict of `mrc`: sizes at which several policies miss equally often, as all do where everything fits.",
        "",
        &["size by size"],
    ),
    word(
        "size by size",
        &["in sum"],
        "In the verdict of `mrc`: which policy misses least at how many of the sizes. The policy named first has the smallest sum of miss ratios \
         over all sizes, and need not be the best at each.",
        "",
        &["ties", "miss ratio"],
    ),
    word(
        "sample",
        &["estimated", "by estimates"],
        "In `mrc --sample`: the objects whose hash is small, with all their requests. Miss ratios are estimated from them, each with an error \
         bound.",
        "a larger share of the objects takes more memory and time; in exchange, bounds are smaller",
        &["miniature", "bound"],
    ),
    word(
        "miniature",
        &[],
        "A cache for a sample of the objects, smaller by the sample's share: it misses about as often as the whole cache does on the whole trace.",
        "",
        &["sample"],
    ),
    word(
        "longest stall",
        &["stalls least"],
        "In `mrc --writes`: the longest wait of one request, at the dirty limit or for an evicted page to be written.",
        "some request waits long",
        &["stall time", "dirty limit"],
    ),
    word(
        "dirty pages met",
        &[],
        "In `mrc --writes`: times that an eviction found a page that was dirty or being written.",
        "eviction reaches pages before the flusher has written them",
        &["longest stall", "dirty"],
    ),
    word(
        "pages written",
        &[],
        "In `mrc --writes`: pages written by the flusher and for evictions. A page that is written to again later counts again.",
        "pages that are soon changed again are written too early",
        &["dirty pages met"],
    ),
];
