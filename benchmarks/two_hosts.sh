#!/bin/bash
# Two "hosts" (network namespaces, so run it as root) train together by torchrun; the second is killed with all that runs on
# it and comes back, and the run goes on from its newest checkpoint.    usage: benchmarks/two_hosts.sh DIRECTORY [PYTHON]
set -eu
where=$1 python=${2:-$PWD/.venv/bin/python}
mkdir -p "$where"

cleanup() {
  for n in a b; do
    ip netns pids rl_$n 2>/dev/null | xargs -r kill -9
    ip netns del rl_$n 2>/dev/null || true
  done
}
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

# Without the first variable torchrun 2.13 takes back a rank, but not a host: a new agent waits for an address in vain.
host() {
  TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=rl_v$1 \
    ip netns exec rl_$1 "$python" -m torch.distributed.run \
    --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=10.77.0.1:29400 --rdzv-id=two-hosts \
    --rdzv-conf=is_host=$((2 - $2)) --local-addr=10.77.0.$2 --max-restarts=3 \
    -m rlpyt.cli.main train a2c CartPole-v1 --run-dir "$where/run" --steps 64000 --checkpoint-interval-steps 2000 \
    --sampler.kind serial --sampler.batch-T 8 --sampler.batch-B 4 --no-video --eval-episodes 2 >>"$where/host_$1.txt" 2>&1 &
}
host a 1
host b 2
until ls "$where"/run/checkpoint/checkpoint-3 >/dev/null 2>&1; do sleep 0.2; done
ip netns pids rl_b | xargs kill -9
echo "$(date +%T) killed all on the second host"
sleep 5
echo "$(date +%T) the second host is back"
host b 2
wait
echo "$(date +%T) done: $(tail -1 "$where/run/progress.csv" | cut -d, -f5) steps"
grep -h "Resumed" "$where/run/debug.log"
