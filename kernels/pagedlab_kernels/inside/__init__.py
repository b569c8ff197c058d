"""A look inside the Triton kernels without a GPU: what they touch, and what the compiler makes of them.

trace, tracing        every address of a call, from the interpreter
report, compiling     loads, copies, registers and assembly, from the compiler
child                 both happen in a process of their own
"""
