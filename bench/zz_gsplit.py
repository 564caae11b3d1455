import sys, os, subprocess, time, glob, pathlib, tempfile
sys.path.insert(0, "bench"); sys.path.insert(0,"tests/vm")
import rivals_guest as R, guest
class A: pass
a=A(); a.large=16<<20; a.seconds=3; a.files=320; a.checkpoint=1<<20; a.load="build/bin/rivals_load"
def stat(pid):
    out={}
    for t in glob.glob(f"/proc/{pid}/task/*"):
        f=open(t+"/stat").read(); n=f[f.index("(")+1:f.rindex(")")]; w=f.rsplit(") ",1)[1].split()
        u,s=out.get(n,(0,0)); out[n]=(u+int(w[11]),s+int(w[12]))
    return out
def hw():
    o={}
    for p in glob.glob("/sys/class/infiniband/*/ports/1/hw_counters/*"):
        try: v=int(open(p).read())
        except Exception: continue
        if v: o[p.split("/")[4]+"."+p.split("/")[-1]]=v
    return o
def diff(b,a): return {k:tuple(x-y for x,y in zip(a[k],b.get(k,(0,0)))) if isinstance(a[k],tuple) else a[k]-b.get(k,0) for k in a if a[k]!=b.get(k)}
R.boot_s()
pathlib.Path(R.DATA).mkdir(); guest.sh(f"mount -t tmpfs -o size=90% rivals {R.DATA}; mkdir -p {R.MOUNT}"); tempfile.tempdir=R.DATA; guest.prepare()
load=R.Load(a)

def ticks(pid):
    return sum(a+b for a,b in stat(pid).values())
arena=(128<<20)+a.large+a.checkpoint
server=guest.Server(f"arena_size={arena}","rdma.operation_timeout_ms=60000",*sys.argv[1:],device="rxe0").start()
pid=server.process.pid
t=ticks(pid);time.sleep(5);print("idle, no client: ticks in 5 s",ticks(pid)-t,flush=True)
load("verbs","prepare","rivals",[pid],True)
command=[*guest.AS_CLIENT,a.load,"verbs","random","rivals","4",str(a.large),str(a.files),str(a.checkpoint)]
p=subprocess.Popen(command,stdin=subprocess.PIPE,stdout=subprocess.PIPE,text=True,env=dict(os.environ,AWS_ENDPOINT_URL=guest.HTTP,**guest.KEYS))
p.stdout.readline()
t=ticks(pid);c=ticks(p.pid);time.sleep(5);print("client connected, idle: ticks in 5 s",ticks(pid)-t,ticks(p.pid)-c,flush=True)
def vol(pid):
    o=[0,0]
    for f in glob.glob(f"/proc/{pid}/task/*/status"):
        for l in open(f):
            if l.startswith("voluntary"): o[0]+=int(l.split()[1])
            if l.startswith("nonvol"): o[1]+=int(l.split()[1])
    return o
v,w,t,c=vol(pid),vol(p.pid),ticks(pid),ticks(p.pid)
p.stdin.write("\n");p.stdin.flush()
time.sleep(2)
v2,w2=vol(pid),vol(p.pid)
print("switches in 2 s (voluntary, other): server",[y-x for x,y in zip(v,v2)],"client",[y-x for x,y in zip(w,w2)],"ticks",ticks(pid)-t,ticks(p.pid)-c,flush=True)
print(p.stdout.readline(),flush=True)
p.communicate()
server.kill()
