"""Requests for certificates: approved, signed, cleaned away.

request     what is asked for, and who may have it: pure
signature   a request becomes a certificate: pure
controller  the three controllers
"""
