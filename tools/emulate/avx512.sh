#!/usr/bin/env bash
# Runs the tests of the CPU kernels on an emulated processor with AVX-512 (Bochs), for machines that have none. Needs Debian and root, for
# the packages; takes some minutes, since an emulated processor is slow. Arguments: names of tests to run.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$PWD/target/emulate
mkdir -p "$work"/image/{bin,proc,dev} "$work"/iso/isolinux

apt-get install -y --no-install-recommends bochs bochs-term bochsbios vgabios isolinux syslinux-common genisoimage cpio busybox-static >/dev/null
kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
[ -e "$work/$kernel" ] || (cd "$work" && apt-get download "$kernel" && dpkg -x "$kernel"_*.deb "$kernel")

# One file that needs no library, and the goldens where the tests look for them.
RUSTFLAGS="-C target-feature=+crt-static" cargo test -p bdo-kernels --test kernels --no-run --target x86_64-unknown-linux-gnu --target-dir "$work/build"
tests=$(find "$work"/build/x86_64-unknown-linux-gnu/debug/deps -name 'kernels-*' -type f -executable -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2)
strip -o "$work/image/kernels" "$tests"
cp /bin/busybox "$work/image/bin/busybox"
mkdir -p "$work/image$PWD"/{crates/bdo-kernels,testdata/golden}
cp testdata/golden/kernels.txt "$work/image$PWD/testdata/golden/"
cat > "$work/image/init" <<INIT
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
for flag in avx2 avx512f avx512bw avx512dq avx512vl; do /bin/busybox grep -q -w \$flag /proc/cpuinfo && echo has \$flag; done
PROPTEST_CASES=4 /kernels --test-threads 1 --skip long_sequences $*
echo EXIT \$?
/bin/busybox sleep 3
/bin/busybox poweroff -f
INIT
chmod +x "$work/image/init"
(cd "$work/image" && find . | cpio --quiet -o -H newc > "$work/iso/initrd")

cp "$work/$kernel"/boot/vmlinuz-* "$work/iso/vmlinuz"
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$work/iso/isolinux/"
# The emulator describes the compacted form of saved registers wrongly (321 and 323); the plain form serves.
cat > "$work/iso/isolinux/isolinux.cfg" <<'CFG'
default bdo
label bdo
 kernel /vmlinuz
 append initrd=/initrd rdinit=/init console=ttyS0 quiet nopku clearcpuid=321,323 mitigations=off nokaslr tsc=reliable lpj=1000000
CFG
genisoimage -quiet -o "$work/boot.iso" -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table "$work/iso"
cat > "$work/bochsrc" <<CFG
cpu: model=corei7_skylake_x, count=1, ips=50000000, reset_on_triple_fault=0
memory: guest=1024, host=1024
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0-master: type=cdrom, path=$work/boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/serial.txt
display_library: term
log: $work/bochs.log
panic: action=report
CFG
echo continue > "$work/commands"
: > "$work/serial.txt"
# The emulator wants a terminal; what matters goes to the serial line.
script -qc "bochs -q -f $work/bochsrc -rc $work/commands" /dev/null < /dev/null > "$work/screen.txt" 2>&1 &
emulator=$!
trap 'kill $emulator 2>/dev/null || true; pkill -P $emulator 2>/dev/null || true' EXIT
tail -n +1 -f "$work/serial.txt" --pid=$emulator | tr -d '\r' | sed -u '/^EXIT/q'
grep -q '^has avx512f' "$work/serial.txt" && grep -a -q '^EXIT 0' "$work/serial.txt"
