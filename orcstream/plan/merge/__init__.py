"""Files joined stripe by stripe."""
