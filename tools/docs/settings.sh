#!/bin/sh
# The table of docs/scores.md: how much each unknown of the published machine of per-zone dirty
# limits is worth. Runs in the folder that tools/docs/blocks.py has made for the page; a row is one run of
# `experiments/usb-stick.toml`, vanilla alone.
set -eu
echo '| setting | xfs: writes from reclaim | fuse-ntfs: elapsed [s], writes | ext4: refusals |'
echo '|---|---|---|---|'
while read -r setting note; do
    rm -rf unknown
    set -- --set policy='"vanilla"' --set filesystem='["xfs", "fuse-ntfs", "ext4"]' --iterations 4 --out unknown --quiet
    [ "$setting" = shipped ] && shown='as shipped' || { shown="\`$setting\`"; set -- "$@" --set "$setting"; }
    lowmark run experiments/usb-stick.toml "$@" >/dev/null
    of() { tools/docs/figure.py unknown "$2" filesystem="$1"; }
    echo "| $shown${note:+ ($note)} | $(of xfs nr_vmscan_write) | $(of fuse-ntfs elapsed), $(of fuse-ntfs nr_vmscan_write)" \
        "| $(of ext4 nr_vmscan_write) |"
done <<'END'
shipped
machine.sysctl.min_free_kbytes=7854 no huge pages
policies.vanilla.dirty_exceeded="own-limit" as 3.0
machine.boot.anon="60M"
machine.boot.anon="250M"
machine.hz=1000
machine.cpus=8
params.usb_unit=4194304
params.usb_copy_bandwidth=11
params.usb_out_of_order=0
params.fuse_max_write=131072
params.fs_look_ahead=1
END
