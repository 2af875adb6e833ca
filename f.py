import os,sys,time
print("rank",os.environ["RANK"],flush=True)
if os.environ["RANK"]=="1":
    print("about to fail",flush=True); sys.exit(3)
time.sleep(30)
