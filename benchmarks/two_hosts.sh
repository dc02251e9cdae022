#!/bin/bash
# Two "hosts" (network namespaces, so run it as root) train together by torchrun; the rank of the second is killed, and the
# run goes on from its newest checkpoint.    usage: benchmarks/two_hosts.sh DIRECTORY [PYTHON]
set -eu
where=$1 python=${2:-$PWD/.venv/bin/python}
mkdir -p "$where"

cleanup() { for n in a b; do ip netns del rl_$n 2>/dev/null || true; done; }
trap cleanup EXIT
for n in a b; do ip netns add rl_$n; done
ip link add rl_va netns rl_a type veth peer name rl_vb netns rl_b
i=0
for n in a b; do
  i=$((i + 1))
  ip netns exec rl_$n ip addr add 10.77.0.$i/24 dev rl_v$n
  ip netns exec rl_$n ip link set rl_v$n up
  ip netns exec rl_$n ip link set lo up
done

i=0
for n in a b; do
  i=$((i + 1))
  OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=rl_v$n ip netns exec rl_$n "$python" -m torch.distributed.run \
    --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=10.77.0.1:29400 --rdzv-id=two-hosts \
    --rdzv-conf=is_host=$((2 - i)) --local-addr=10.77.0.$i --max-restarts=3 \
    -m rlpyt.cli.main train a2c CartPole-v1 --run-dir "$where/run" --steps 64000 --checkpoint-interval-steps 2000 \
    --sampler.kind serial --sampler.batch-T 8 --sampler.batch-B 4 --no-video --eval-episodes 2 >"$where/host_$n.txt" 2>&1 &
  agent=$!
done

until ls "$where"/run/checkpoint/checkpoint-3 >/dev/null 2>&1; do sleep 0.2; done
rank=$(pgrep -P "$agent" | head -1)
kill -9 "$rank"
echo "$(date +%T) killed the rank of the second host, pid $rank"
wait
echo "$(date +%T) done: $(tail -1 "$where/run/progress.csv" | cut -d, -f5) steps"
grep -h "Resumed" "$where/run/debug.log"
