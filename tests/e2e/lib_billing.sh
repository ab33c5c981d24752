# Plans for tests that bill. Sourced after lib.sh.

# flat_plan UD_OF_BYTE : the text of a plan named "flat", in which a byte of payload costs that many micro-denarii, whatever its
# class, rate and delay, without a discount.
flat_plan() {
    local class price
    price=$("$python" -c 'import sys; print(float(sys.argv[1]) / 8000)' "$1")
    printf '[plan]\nname = "flat"\ndelay_unknown_ms = 100\np_min_denarii_per_vu = %s\np_max_denarii_per_vu = %s\n' "$price" "$price"
    for class in lt-ld ht-ld lt-hd ht-hd; do
        printf '[plan.class.%s]\nk_x = 1.0\nx_kbps = [0, 64]\nd_ms = [0, 100]\nu = [[0, 0], [0, 0]]\n' "$class"
    done
}

# use_flat_plan STATE UD_OF_BYTE : for all its users, from the beginning on.
use_flat_plan() {
    flat_plan "$2" >"$work/flat.toml"
    snapt plan add "$work/flat.toml" --from 2026-01-01 --state "$1" >/dev/null
    snapt plan use flat --from 2026-01-01 --state "$1" >/dev/null
}
