import time
t=[time.process_time()]
import numpy; t.append(time.process_time())
import numba; t.append(time.process_time())
import certifare.document; t.append(time.process_time())
import certifare.certificates.exact as e
e._window(100,.5,3.0); t.append(time.process_time())
e.difference_limit(100,100,50,.05); t.append(time.process_time())
print([round(b-a,3) for a,b in zip(t,t[1:])])
